"""The contract of TABLE_READERS: each reads the same table, whole and in parts, and refuses others in a sentence."""

import pandas as pd
import pytest

from equipoise.data.sources import check_source
from equipoise.data.tables import TABLE_READERS
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.errors import InvalidInputError

TABLE = pd.DataFrame({"age": [31.5, 54.0, 40.25], "town": ["Oslo", "Rome", "Oslo"], "label": ["a", "b", "a"]})
WRITERS = {
    ".parquet": TABLE.to_parquet,
    ".pq": TABLE.to_parquet,
    ".jsonl": lambda path: TABLE.to_json(path, orient="records", lines=True),
    ".ndjson": lambda path: TABLE.to_json(path, orient="records", lines=True),
    ".xlsx": lambda path: TABLE.to_excel(path, index=False),
    ".xlsm": lambda path: TABLE.to_excel(path, index=False),
}


def test_every_reader_has_a_writer_here():
    assert set(WRITERS) == set(TABLE_READERS)


@pytest.mark.parametrize("suffix", TABLE_READERS)
def test_a_format_is_read_whole_and_in_parts(suffix, tmp_path):
    path = tmp_path / f"table{suffix.upper()}"  # endings in capitals are the same
    WRITERS[suffix](tmp_path / f"table{suffix}")
    (tmp_path / f"table{suffix}").rename(path)
    check_source(path, target="label")
    samples = read_table(path, target="label")
    assert samples.y.tolist() == ["a", "b", "a"]
    pd.testing.assert_frame_equal(samples.x, TABLE[["age", "town"]], check_dtype=False)
    parts = list(iterate_table(path, rows=2))
    assert [len(part) for part in parts] == [2, 1]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), TABLE, check_dtype=False)


@pytest.mark.parametrize("suffix", TABLE_READERS)
def test_what_is_of_another_format_is_refused(suffix, tmp_path):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(b"PK\x03\x04 not a table at all")
    with pytest.raises(InvalidInputError, match=rf"table\{suffix} (is no|is damaged|is not)|is no JSON"):
        read_table(path, target="label")
