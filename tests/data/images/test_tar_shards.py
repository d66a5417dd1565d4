"""Images in tar shards: read where they lie, in shuffled shards, each once, by processes and workers."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.data import open_data
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES
from equipoise.models import MLP, ImageBackbone, ImageInput, LeNet
from equipoise.training import ArrayData, EpochBatches, Network, Settings, train

SHARDS, EACH = 3, 8


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((28, 28), value, dtype=np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


def write_shards(folder, *, form: str = "cls") -> None:
    folder.mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:05}.tar", "w") as archive:
            for place in range(EACH):
                number = shard * EACH + place
                label = "bright" if number % 2 else "dark"
                text = json.dumps({"label": label, "width": 28}) if form == "json" else label
                for suffix, content in (("png", png(10 * number)), (form, text.encode())):
                    entry = tarfile.TarInfo(f"{number:04}.{suffix}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("form", ["cls", "json", "txt"])
def test_shards_are_read_in_order_without_being_unpacked(tmp_path, form):
    write_shards(tmp_path / "shards", form=form)
    samples = open_data(tmp_path / "shards", size=28)
    assert len(samples) == SHARDS * EACH
    np.testing.assert_array_equal(samples.x[:][:, 0, 0, 0], 10 * np.arange(SHARDS * EACH))
    assert samples.y.tolist() == ["dark", "bright"] * (SHARDS * EACH // 2)
    assert samples.x.names[EACH] == "00001.tar/0008.png"
    np.testing.assert_array_equal(samples.x.take([9, 3])[:][:, 0, 0, 0], [90, 30])
    np.testing.assert_array_equal(samples.x.blocks(), np.repeat(range(SHARDS), EACH))


def test_shards_are_shuffled_and_each_image_comes_once_over_all_processes(tmp_path, monkeypatch):
    write_shards(tmp_path / "shards")
    samples = open_data(tmp_path / "shards", size=28)
    monkeypatch.setattr("equipoise.data.images.images_on_disk.BUFFER", EACH)
    data = ArrayData(samples.x, (samples.y == "bright").astype(int))
    seen = []
    for process in (0, 1):
        batches = EpochBatches(
            data.y,
            8,
            seed=1,
            process=process,
            processes=2,
            blocks=data.blocks(),
            blocks_at_once=samples.x.groups_at_once,
        )
        assert samples.x.groups_at_once == 1
        seen += [row for batch in batches for row in batch]
    assert sorted(seen) == list(range(SHARDS * EACH))
    assert seen != sorted(seen)


def test_workers_train_on_shards_to_the_bits_of_images_in_memory(tmp_path, monkeypatch):
    write_shards(tmp_path / "shards")
    samples = open_data(tmp_path / "shards", size=28)
    at_once, ends = samples.x.groups_at_once, []
    for x in (samples.x, np.asarray(samples.x)):
        torch.manual_seed(0)
        network = Network(ImageBackbone(ImageInput(1), LeNet(), MLP(500, (16,))), LOSSES["cross_entropy"](16, 2))
        data = ArrayData(x, (samples.y == "bright").astype(int))
        if x is not samples.x:
            data.blocks = lambda: torch.from_numpy(samples.x.blocks())
            monkeypatch.setattr("equipoise.data.samples.SampleRows.groups_at_once", property(lambda _: at_once))
        train(network, data, Settings(epochs=1, batch_size=8, learning_rate=0.01))
        ends.append(torch.cat([parameter.detach().flatten() for parameter in network.parameters()]))
    assert torch.equal(*ends)


def test_a_shard_that_is_cut_short_is_named(tmp_path):
    write_shards(tmp_path / "shards")
    short = tmp_path / "shards" / "00001.tar"
    whole = short.read_bytes()
    for length in (len(whole) // 3, 512 * 8, 100):
        short.write_bytes(whole[:length])
        with pytest.raises(
            InvalidInputError, match=r"00001\.tar is not a tar file or is truncated \(.*get the file again"
        ):
            open_data(tmp_path / "shards", size=28)


def test_images_without_a_label_are_left_out_and_a_folder_of_none_is_refused(tmp_path):
    write_shards(tmp_path / "shards")
    with tarfile.open(tmp_path / "shards" / "00003.tar", "w") as archive:
        entry = tarfile.TarInfo("9999.png")
        entry.size = len(png(7))
        archive.addfile(entry, io.BytesIO(png(7)))
    samples = open_data(tmp_path / "shards", size=28)
    assert len(samples) == SHARDS * EACH
    assert any("left out, without a label: '00003.tar/9999.png'" in note for note in samples.notes)
    for path in (tmp_path / "shards").glob("0000[0-2].tar"):
        path.unlink()
    with pytest.raises(InvalidInputError, match=r"has an image with a label; a sample is NAME\.jpg beside NAME\.cls"):
        open_data(tmp_path / "shards", size=28)
