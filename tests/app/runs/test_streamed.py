"""``train`` on Parquet that stays on disk."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.app.runs.run_options import RunOptions
from equipoise.app.runs.train import train_run
from equipoise.data import open_data
from equipoise.data.tables.streamed_table import StreamedTable
from equipoise.errors import InvalidInputError

pytest.importorskip("pyarrow")


def write_parts(folder, rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = (rng.random(rows) < 0.2).astype(int)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)) + y[:, None], columns=list("abc"))
    frame["shade"] = np.where(rng.random(rows) < 0.5, "red", "blue")
    frame["died"] = np.where(y == 1, "yes", "no")
    folder.mkdir()
    for part in range(3):
        own = frame.iloc[part * rows // 3 : (part + 1) * rows // 3]
        own.to_parquet(folder / f"part-{part}.parquet", row_group_size=50, index=False)
    return frame


@pytest.mark.slow  # a whole run with its report
def test_a_folder_of_parts_is_trained_on_without_being_read_whole(tmp_path):
    write_parts(tmp_path / "parts")
    options = RunOptions(str(tmp_path / "parts"), target="died", stream=True, epochs=2, batch_size=32)
    result = train_run(options, tmp_path / "run")
    assert result.classes == ["no", "yes"]
    assert result.scores.as_dict()["balanced_accuracy"] > 0.7
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert any("read in parts" in note for note in record["notes"])
    assert result.report.exists()


def test_a_folder_of_parts_is_a_table_in_memory_or_on_disk(tmp_path):
    frame = write_parts(tmp_path / "parts")
    whole = open_data(tmp_path / "parts", target="died")
    pd.testing.assert_frame_equal(whole.x, frame.drop(columns="died"), check_dtype=False)
    streamed = open_data(tmp_path / "parts", target="died", stream=True)
    assert isinstance(streamed.x, StreamedTable)
    np.testing.assert_array_equal(streamed.y, whole.y)
    pd.testing.assert_frame_equal(streamed.x.frame(), whole.x, check_dtype=False)
    assert isinstance(open_data(tmp_path / "parts", target="died", stream=None).x, pd.DataFrame)


def test_rows_without_a_label_are_left_out(tmp_path):
    frame = write_parts(tmp_path / "parts")
    frame.loc[::7, "died"] = None
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    streamed = open_data(tmp_path / "rows.parquet", target="died", stream=True)
    assert len(streamed) == frame["died"].notna().sum()
    assert any("left out" in note for note in streamed.notes)
    np.testing.assert_array_equal(streamed.x.frame()["a"], frame.loc[frame["died"].notna(), "a"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group": "shade"}, "cannot keep groups together while it is read in parts; pass --in-memory"),
        ({"time": "a"}, "--time sorts all rows, and this table is read in parts; pass --in-memory"),
        ({"model": "auto"}, "--model auto needs the whole table, and .* is read in parts; leave --model out"),
        ({"sample_level": "mixing", "epochs": 2}, "mixing draws partners from all rows at once; read the table into"),
    ],
)
def test_what_needs_all_rows_at_once_is_refused(tmp_path, options, sentence):
    write_parts(tmp_path / "parts")
    with pytest.raises(InvalidInputError, match=sentence):
        train_run(RunOptions(str(tmp_path / "parts"), target="died", stream=True, **options), tmp_path / "run")


def test_only_parquet_is_read_in_parts(tmp_path):
    (tmp_path / "rows.csv").write_text("a,died\n1,yes\n2,no\n")
    with pytest.raises(InvalidInputError, match="must be Parquet to be read in parts; leave --stream out"):
        open_data(tmp_path / "rows.csv", target="died", stream=True)
