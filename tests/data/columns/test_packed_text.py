"""Text that repeats in a large file is kept once; nothing else may change by it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.data.columns.guess_kind import guess_kind
from equipoise.data.columns.number_range import fits_float32, median
from equipoise.data.columns.parsing import parse
from equipoise.data.columns.texts import as_words, distinct, is_packed, is_text, pack, repeats, without_blanks
from equipoise.data.encoder import TableEncoder
from equipoise.data.leaks import leak_notes
from equipoise.data.tables import read_table as table_files
from equipoise.data.tables.read_table import read_table

ROWS = 1000


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 300, ROWS)
    spaced = rng.choice(["yes", "no", " yes", "NO"], ROWS)
    late = np.where(np.arange(ROWS) < 150, "7", rng.choice(["7", "8", "n.k."], ROWS))  # text only from the second part
    frame = pd.DataFrame(
        {
            "label": rng.choice(["common", "rare"], ROWS, p=[0.9, 0.1]),
            "x": rng.normal(size=ROWS).round(3),
            "town": rng.choice(["Oslo", "oslo", "Rome", "", "?"], ROWS),
            "paid": [f"{value:,.2f} €" for value in rng.exponential(900, ROWS).round(-1)],
            "share": [f"{value}%" for value in rng.integers(0, 100, ROWS)],
            "score": np.where(rng.random(ROWS) < 0.1, "refused", rng.integers(0, 11, ROWS).astype(str)),
            "zip": [f"{value:05d}" for value in rng.integers(1000, 1100, ROWS)],
            "day": days.astype(str),
            "moment": [f"2021-03-0{1 + row % 9} 10:{row % 60:02d}:{row % 59:02d}" for row in range(ROWS)],
            "consent": spaced,
            "late": late,
            "empty": "",
        }
    )
    path = tmp_path_factory.mktemp("packed") / "mixed.csv"
    frame.to_csv(path, index=False)
    return path


def packed_samples(path: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> object:
    monkeypatch.setattr(table_files, "PART_ROWS", 100)
    return read_table(path, target="label", **options)


def test_a_large_file_has_each_repeated_text_once(mixed, monkeypatch):
    packed = packed_samples(mixed, monkeypatch).x
    assert {name for name, column in packed.items() if is_packed(column)} >= {"town", "share", "score", "day", "zip"}
    assert not is_packed(packed["x"])
    assert not is_packed(packed["empty"])
    few = packed["share"].memory_usage(deep=True)
    assert few < packed["share"].astype("str").memory_usage(deep=True)


def test_packed_and_plain_files_encode_alike(mixed, monkeypatch):
    plain = read_table(mixed, target="label")
    packed = packed_samples(mixed, monkeypatch)
    assert packed.y.tolist() == plain.y.tolist()
    assert packed.checksum() == plain.checksum()
    encoders = [TableEncoder().fit(samples.x, samples.y) for samples in (plain, packed)]
    assert encoders[0].notes_ == encoders[1].notes_
    assert encoders[0].guesses_ == encoders[1].guesses_
    assert encoders[0].to_json() == encoders[1].to_json()
    np.testing.assert_array_equal(encoders[0].transform(plain.x), encoders[1].transform(packed.x))


def test_a_part_of_packed_rows_encodes_alike(mixed, monkeypatch):
    rows = np.arange(ROWS)[::-7]
    plain, packed = read_table(mixed, target="label").take(rows), packed_samples(mixed, monkeypatch).take(rows)
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(plain.x, plain.y), TableEncoder().fit_transform(packed.x, packed.y)
    )
    assert leak_notes(plain) == leak_notes(packed)


def test_reading_tells_how_far_it_is(mixed, monkeypatch):
    told: list[tuple[int, int]] = []
    packed_samples(mixed, monkeypatch, progress=lambda done, total: told.append((done, total)))
    done = [each for each, _ in told]
    assert done == sorted(done)
    assert told[-1] == (ROWS, ROWS)
    assert all(total == ROWS + 1 for _, total in told[:-1])  # with the line of names


def test_distinct_texts_of_packed_rows_come_in_the_order_of_the_rows():
    column = pack(pd.Series(["b", None, "a", "c", "a"]))
    found = distinct(column.iloc[[4, 1, 3]])
    assert found.values.tolist() == ["a", "c"]
    assert found.codes.tolist() == [0, -1, 1]
    assert as_words(column).tolist() == ["b", None, "a", "c", "a"]


def test_packed_blanks_are_missing():
    column = pack(pd.Series(["b", " ", "b"]))
    assert is_text(column)
    assert without_blanks(column).isna().tolist() == [False, True, False]


def test_packed_digits_are_numbers_and_a_category_of_them_is_none():
    words = ["1", "2", "3", "2"]
    assert guess_kind(pack(pd.Series(words)), "n").kind == "number"
    assert guess_kind(pd.Series(words, dtype="category"), "n").kind == "category"


def test_texts_that_hardly_repeat_are_not_looked_for():
    column = pd.Series([f"{value:,}.50 €" for value in range(12_000)])
    assert not repeats(column)
    parsed = parse(column)
    assert parsed is not None
    np.testing.assert_array_equal(parsed.numbers, np.arange(12_000) + 0.5)
    assert repeats(pd.Series(["a", "b"] * 6000))
    assert not repeats(pd.Series([1.0, 1.0]))


def test_a_part_without_values_of_a_packed_column(tmp_path, monkeypatch):
    words = ["a", "b"] * 50 + [""] * 100 + ["b", "c"] * 50
    frame = pd.DataFrame({"word": words, "x": np.arange(300) % 7, "label": ["no", "yes", "no"] * 100})
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    found = packed_samples(tmp_path / "gaps.csv", monkeypatch).x["word"]
    assert is_packed(found)
    assert as_words(found).tolist() == [word or None for word in words]


def test_class_names_stay_as_they_are_written_in_parts_without_a_word(tmp_path, monkeypatch):
    labels = ["unknown", *["01"] * 149, *["2.0"] * 150]  # the second and third part have numbers only
    path = tmp_path / "labels.csv"
    pd.DataFrame({"label": labels, "x": np.arange(300) % 7}).to_csv(path, index=False)
    assert packed_samples(path, monkeypatch).y.tolist() == labels


@pytest.mark.parametrize("numbers", [[0.5, 2.0, 0.1], [3.0], [1.0, 0.2, 3.0, 0.4], [-1e30, 1e30]])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_median_is_that_of_float64(numbers, kind):
    known = np.array(numbers, dtype=kind)
    assert median(known) == np.median(known.astype(np.float64))


def test_numbers_read_while_fitting_are_those_of_transform(mixed, monkeypatch):
    samples = packed_samples(mixed, monkeypatch)
    rows = samples.x.assign(moment=samples.x["moment"].astype("str"), once=[f"{row:,}.5 kr" for row in range(ROWS)])
    encoder = TableEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(rows), encoder.transform(rows))
    assert "once" in encoder.column_names_


def test_numbers_beside_zeros_alone_tell_whether_float32_is_enough():
    few = np.zeros(100_000)
    few[7::5000] = 1.7e12 + np.arange(20)
    assert not fits_float32(few)
    assert fits_float32(np.where(few > 0, 0.1 * np.arange(100_000), 0.0))
    assert fits_float32(np.array([np.inf, 0.1, 0.3]))
    assert not fits_float32(np.array([1e300, np.inf]))
