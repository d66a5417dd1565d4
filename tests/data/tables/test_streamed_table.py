"""Parquet tables on disk: any rows by number, in few reads, and damaged parts by name."""

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise.data.encoder import TableEncoder
from equipoise.data.tables.parquet_shards import ParquetShards
from equipoise.data.tables.streamed_table import EncodedStream, StreamedTable
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, EpochBatches, Network, Settings, train

pytest.importorskip("pyarrow")


def table(rows: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 4)).astype(np.float32), columns=list("abcd"))
    frame["shade"] = rng.choice(["red", "green", "blue"], rows)
    frame.loc[::17, "a"] = np.nan
    frame["kind"] = (frame["b"] + rng.normal(size=rows) > 1).astype(int)
    return frame


@pytest.fixture(params=["file", "folder", "dataset"])
def source(request, tmp_path):
    frame = table()
    if request.param == "file":
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=40)
        return tmp_path / "rows.parquet"
    if request.param == "folder":
        for part in range(5):
            frame.iloc[part * 100 : (part + 1) * 100].to_parquet(tmp_path / f"part-{part}.parquet", row_group_size=30)
        return tmp_path
    frame.sort_values("shade", kind="stable").to_parquet(tmp_path, partition_cols=["shade"])
    return tmp_path


def test_any_rows_come_as_they_were_written(source):
    shards, frame = ParquetShards(source), table()
    if source.is_dir() and any("=" in path.name for path in source.iterdir()):
        frame = frame.sort_values("shade", kind="stable").reset_index(drop=True)
    assert len(shards) == len(frame)
    assert sorted(shards.columns) == sorted(frame.columns)
    rows = np.random.default_rng(1).permutation(len(frame))[:77]
    pd.testing.assert_frame_equal(
        shards.take(rows, list(frame.columns)), frame.iloc[rows].reset_index(drop=True), check_dtype=False
    )


def test_encoded_rows_are_those_of_the_table_in_memory(source):
    shards = ParquetShards(source)
    streamed = StreamedTable(shards, [name for name in shards.columns if name != "kind"])
    frame = streamed.frame()
    encoder = TableEncoder().fit(frame)
    rows = EncodedStream(streamed, encoder)
    matrix = encoder.transform(frame)
    assert rows.shape == matrix.shape
    np.testing.assert_array_equal(rows[:], matrix)
    drawn = np.random.default_rng(1).permutation(len(frame))[:50]
    np.testing.assert_array_equal(rows[drawn], matrix[drawn])
    np.testing.assert_array_equal(rows.take(drawn)[5:9], matrix[drawn[5:9]])


def small_network(encoder: TableEncoder) -> Network:
    torch.manual_seed(0)
    return Network(MLP(len(encoder.column_names_), (16,)), LOSSES["uncertainty_margin"](16, 2, dropout=0.5))


@pytest.mark.filterwarnings("ignore:training is short")
def test_training_gives_the_bits_of_a_table_in_memory_in_the_same_order(tmp_path, monkeypatch):
    table().to_parquet(tmp_path / "rows.parquet", row_group_size=40)
    streamed = StreamedTable(ParquetShards(tmp_path / "rows.parquet"), list("abcd"))
    frame, labels = streamed.frame(), table()["kind"].to_numpy()
    encoder = TableEncoder().fit(frame)
    rows = EncodedStream(streamed, encoder)
    monkeypatch.setattr("equipoise.data.tables.streamed_table.BUFFER_ROWS", 120)
    blocks = torch.from_numpy(rows.blocks())
    ends = []
    for x in (rows, encoder.transform(frame)):
        data, network = ArrayData(x, labels), small_network(encoder)
        if x is not rows:
            data.blocks = lambda: blocks
            monkeypatch.setattr("equipoise.data.samples.SampleRows.groups_at_once", property(lambda _: 3))
        train(network, data, Settings(epochs=3, batch_size=32, learning_rate=0.01), curriculum=Curriculum(3))
        ends.append(torch.cat([parameter.detach().flatten() for parameter in network.parameters()]))
    assert torch.equal(*ends)


def test_an_epoch_reads_each_row_group_about_once(tmp_path, monkeypatch):
    table().to_parquet(tmp_path / "rows.parquet", row_group_size=20)
    shards = ParquetShards(tmp_path / "rows.parquet")
    monkeypatch.setattr("equipoise.data.tables.streamed_table.BUFFER_ROWS", 60)
    read, real = [], shards.read
    monkeypatch.setattr(shards, "read", lambda group, columns: read.append(group) or real(group, columns))
    streamed = StreamedTable(shards, list("abcd"))
    rows = EncodedStream(streamed, TableEncoder().fit(streamed.frame()))
    read.clear()
    data = ArrayData(rows, table()["kind"].to_numpy())
    batches = EpochBatches(data.y, 16, seed=0, blocks=data.blocks(), blocks_at_once=rows.groups_at_once)
    for batch in batches:
        data.__getitems__(batch)
    assert sorted(set(read)) == list(range(25))
    assert len(read) == 25


def test_a_short_part_is_named_at_once(tmp_path):
    for part in range(3):
        table(100).to_parquet(tmp_path / f"part-{part}.parquet")
    short = tmp_path / "part-1.parquet"
    short.write_bytes(short.read_bytes()[:-100])
    with pytest.raises(
        InvalidInputError, match=r"part-1\.parquet is not a Parquet file or is damaged .*get the file again"
    ):
        ParquetShards(tmp_path)


def test_a_part_damaged_inside_is_named_when_it_is_read(tmp_path):
    for part in range(3):
        table(100).to_parquet(tmp_path / f"part-{part}.parquet", compression="zstd")
    broken = tmp_path / "part-2.parquet"
    content = bytearray(broken.read_bytes())
    content[10:400] = bytes(390)
    broken.write_bytes(content)
    shards = ParquetShards(tmp_path)
    with pytest.raises(
        InvalidInputError, match=r"part-2\.parquet (cannot be read|is not a Parquet file or is damaged) \("
    ):
        shards.take(np.arange(len(shards)), list("abcd"))


def test_a_part_with_other_columns_is_named(tmp_path):
    table(50).to_parquet(tmp_path / "part-0.parquet")
    table(50).drop(columns="b").to_parquet(tmp_path / "part-1.parquet")
    with pytest.raises(InvalidInputError, match=r"part-1\.parquet lacks the column 'b', which .*part-0\.parquet has"):
        ParquetShards(tmp_path)
    with pytest.raises(InvalidInputError, match="has no Parquet files"):
        ParquetShards(tmp_path / "part-0.csv")


def test_a_changed_file_has_another_fingerprint(tmp_path):
    table(50).to_parquet(tmp_path / "part-0.parquet")
    before = ParquetShards(tmp_path).fingerprint()
    assert ParquetShards(tmp_path).fingerprint() == before
    table(51).to_parquet(tmp_path / "part-0.parquet")
    assert ParquetShards(tmp_path).fingerprint() != before
