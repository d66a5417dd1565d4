"""Memory that follows from the data and nothing else, on small sizes; ``benchmarks/load.py`` takes the large ones."""

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.runs.choose_split import split_samples
from equipoise.app.runs.predict import predict_to
from equipoise.data.images import read_images
from equipoise.data.tables.read_table import read_table
from tests.app.runs.made import pictures

MB = 2**20


@pytest.fixture(autouse=True)
def _plain_pages():
    """Draw pages whole: their size is measured."""


@contextmanager
def traced():
    """The peak and what is left, in megabytes, of all that Python and numpy take meanwhile."""
    found = {}
    tracemalloc.start()
    try:
        yield found
        left, peak = tracemalloc.get_traced_memory()
        found |= {"left": left / MB, "peak": peak / MB}
    finally:
        tracemalloc.stop()


def table(path, rows, *, columns=2, classes=2, labelled=True):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, columns)).round(3), columns=[f"c{n}" for n in range(columns)])
    if labelled:
        frame["label"] = [f"class {place % classes}" for place in range(rows)]
    frame.to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small run")
    return train_run(RunOptions(table(folder / "t.csv", 200, columns=12), epochs=1), folder / "run").folder


@pytest.mark.slow
def test_a_table_takes_its_float32_size_and_its_division_no_second_copy(tmp_path):
    path, size = table(tmp_path / "t.csv", 120_000, columns=20), 4 * 120_000 * 20 / MB
    with traced() as reading:
        samples = read_table(path)
    parts = 2 * 8 * 50_000 * 20 / MB  # of float64, as the parser gives them
    assert reading["peak"] < 2 * size + parts
    del samples
    with traced() as dividing:
        parts = split_samples(RunOptions(path), RunWatcher())
    labels = parts.train.y.nbytes / MB
    assert dividing["left"] < 1.3 * size + 2 * labels  # both parts together, and nothing of what they were taken from
    assert parts.whole is None


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_predictions_take_as_much_for_many_rows_as_for_few(tmp_path, small_run, kind):
    model, peaks = RunModel.load(small_run), []
    for rows in (2_000, 60_000, 120_000):  # the first warms up; the others are longer than what is looked at at first
        source = table(tmp_path / f"{rows}.csv", rows, columns=12, labelled=False)
        with traced() as found:
            out = tmp_path / f"answers {rows}.{kind}"
            done = predict_to(model, source, out, kind=kind, threshold=0.5, tell=lambda _: None)
        assert done.samples == rows
        peaks.append(found["peak"])
    assert peaks[2] < 1.15 * peaks[1] + 1, peaks


@pytest.mark.slow
def test_image_files_take_a_few_hundred_bytes_each(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    pictures(tmp_path / "photos", {"day": 1500, "night": 1000}, side=4)
    read_images(tmp_path / "photos")  # verified, and remembered
    with traced() as found:
        samples = read_images(tmp_path / "photos")
    assert len(samples) == 2500
    assert found["left"] * MB / 2500 < 500
    assert found["peak"] * MB / 2500 < 2500


@pytest.mark.nightly
def test_a_thousand_classes(tmp_path):
    path = table(tmp_path / "t.csv", 4000, columns=6, classes=1000)
    result = train_run(RunOptions(path, epochs=1, test_share=0.25), tmp_path / "run")
    assert len(result.classes) == 1000
    assert (tmp_path / "run/report.html").stat().st_size < 4 * MB
    few = table(tmp_path / "few.csv", 200, columns=6, labelled=False)
    model, out = RunModel.load(tmp_path / "run"), tmp_path / "answers.csv"
    with traced() as found:
        predict_to(model, few, out, kind="csv", threshold=0.5, tell=lambda _: None)
    assert found["peak"] < 60  # 200 rows of 1,000 probabilities are 2 as float64; a class against every other 8
