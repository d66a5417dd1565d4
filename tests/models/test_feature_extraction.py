"""Features are computed once, kept, found again by what they depend on, and survive a kill."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from equipoise.data.images import read_images
from equipoise.data.samples import SampleRows
from equipoise.errors import InvalidInputError
from equipoise.models import MLP, ImageBackbone, LeNet, extract_features
from equipoise.models.image_network import ImageInput

ROWS = 45


def pixels(rows=ROWS, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (rows, 1, 28, 28), dtype=np.uint8)


def network():
    torch.manual_seed(0)
    return ImageBackbone(ImageInput(1), LeNet())


class Counted:
    """Calls of a progress function, as rows done."""

    def __init__(self):
        self.done = []

    def __call__(self, done, total):
        assert total == ROWS
        self.done.append(done)


@torch.inference_mode()
def test_features_are_the_backbones_own_in_evaluation_mode(tmp_path):
    model = ImageBackbone(ImageInput(1), LeNet(), MLP(500, (9, 7), dropout=0.5)).train()
    model.body.conv2.eval()
    counted = Counted()
    found = extract_features(pixels(), model, cache=tmp_path, batch_size=20, progress=counted)
    assert (model.training, model.body.training, model.body.conv2.training) == (True, True, False)
    assert (found.shape, found.dtype) == ((ROWS, 7), np.float32)
    assert counted.done == [0, 20, 40, 45]
    expected = model.eval()(torch.from_numpy(pixels()))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_the_second_call_reads_the_disk_and_changes_to_the_result_stay_in_memory(tmp_path):
    model = network()
    first = extract_features(pixels(), model, cache=tmp_path)
    kept = np.array(first)
    first[:] = 0
    calls = []
    model.body.register_forward_pre_hook(lambda _, given: calls.append(len(given[0])))
    counted = Counted()
    second = extract_features(pixels(), model, cache=tmp_path, progress=counted)
    assert isinstance(second, np.memmap)
    assert np.array_equal(second, kept)
    assert sum(calls) <= 3  # a look at the width and at the first rows
    assert counted.done == [ROWS]


def test_nothing_is_kept_when_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "own"))
    model, counted = network(), Counted()
    alone = extract_features(pixels(), model, cache=False, batch_size=30, progress=counted)
    assert not (tmp_path / "own").exists()
    assert counted.done == [30, 45]
    kept = extract_features(pixels(), model, batch_size=30)
    assert np.array_equal(alone, kept)
    assert len(list((tmp_path / "own/features").glob("*.npy"))) == 1


def changed_weights(model):
    with torch.no_grad():
        model.body.conv1.weight[0, 0, 0, 0] += 1


def changed_transform(model):
    model.input.mean += 0.1


def changed_layer(model):
    model.top = nn.ReLU6()


@pytest.mark.parametrize("change", [changed_weights, changed_transform, changed_layer])
def test_another_network_has_other_features(tmp_path, change):
    model = network()
    extract_features(pixels(), model, cache=tmp_path)
    change(model)
    again = extract_features(pixels(), model, cache=tmp_path)
    assert np.array_equal(again, extract_features(pixels(), model, cache=False))
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_other_images_have_other_features(tmp_path):
    model, x = network(), pixels()
    extract_features(x, model, cache=tmp_path)
    x[ROWS - 1, 0, 27, 27] ^= 1
    extract_features(x, model, cache=tmp_path)
    extract_features(x[::-1], model, cache=tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 3


class OnDisk(SampleRows):
    """What Images promises, and no more; it counts what was read."""

    def __init__(self, x, name="a"):
        self.x, self.name, self.read = x, name, 0
        self.shape, self.dtype, self.ndim = x.shape, x.dtype, x.ndim

    def __len__(self):
        return len(self.x)

    def __getitem__(self, rows):
        found = self.x[rows]
        self.read += len(found)
        return found

    def fingerprint(self):
        return self.name


def test_images_on_disk_are_found_again_by_their_fingerprint_and_hardly_read(tmp_path):
    model, source = network(), OnDisk(pixels())
    first = extract_features(source, model, cache=tmp_path, batch_size=10)
    assert source.read == ROWS + 1
    again = OnDisk(pixels())
    assert np.array_equal(first, extract_features(again, model, cache=tmp_path))
    assert again.read <= 3
    extract_features(OnDisk(pixels(), "b"), model, cache=tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 2


@pytest.mark.parametrize("check", [True, False])
def test_other_files_of_the_same_names_sizes_and_times_have_other_features(tmp_path, monkeypatch, check):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    model, order = network(), iter(range(3))

    def features(folder, seed):
        for row, image in enumerate(pixels(4, seed)):
            path = tmp_path / folder / "ab"[row % 2] / f"{row}.bmp"
            path.parent.mkdir(parents=True, exist_ok=True)
            # the first two alike: they are what is computed again to compare
            Image.fromarray(image[0] if row > 1 else pixels(4)[row, 0]).save(path)
            os.utime(path, ns=(10**18, 10**18))
        images = read_images(tmp_path / folder, size=28, check=check).x
        found = extract_features(images, model)
        assert np.allclose(found, extract_features(images, model, cache=False), atol=1e-5)
        return len(list((tmp_path / "cache/features").glob("*.npy"))) - 1 == next(order)

    assert features("one", 0)
    assert features("other", 1)
    assert features("one", 2)  # in place, with its time as it was


def test_an_image_that_cannot_be_read_ends_it_and_what_was_done_is_kept(tmp_path):
    class Torn(OnDisk):
        def __getitem__(self, rows):
            if isinstance(rows, slice) and rows.start >= 20:
                raise InvalidInputError("image 21 is damaged.")
            return super().__getitem__(rows)

    with pytest.raises(InvalidInputError, match="image 21 is damaged"):
        extract_features(Torn(pixels()), network(), cache=tmp_path, batch_size=10)
    counted = Counted()
    extract_features(OnDisk(pixels()), network(), cache=tmp_path, batch_size=10, progress=counted)
    assert counted.done == [20, 30, 40, 45]


@pytest.mark.parametrize("harm", ["cut", "flip", "longer", "header", "record", "no record"])
def test_a_damaged_file_is_computed_again(tmp_path, harm):
    model = network()
    right = np.array(extract_features(pixels(), model, cache=tmp_path, batch_size=10))
    (path,), (record,) = tmp_path.glob("*.npy"), tmp_path.glob("*.json")
    content = bytearray(path.read_bytes())
    if harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "flip":
        content[-4000] ^= 64
        path.write_bytes(content)
    elif harm == "longer":
        path.write_bytes(content + b"rest")
    elif harm == "header":
        content[30] ^= 1
        path.write_bytes(content)
    elif harm == "record":
        record.write_text(record.read_text()[:-5])
    else:
        record.unlink()
    counted = Counted()
    found = extract_features(pixels(), model, cache=tmp_path, batch_size=10, progress=counted)
    assert np.array_equal(found, right)
    if harm != "longer":  # a longer file has all its rows, sound
        assert counted.done == [0, 10, 20, 30, 40, ROWS]
    assert np.array_equal(np.load(path), right)


def test_a_backbone_whose_code_changed_is_noticed(tmp_path):
    model = network()
    extract_features(pixels(), model, cache=tmp_path)
    plain = LeNet.forward
    try:
        LeNet.forward = lambda self, x: plain(self, x) + 1
        found = extract_features(pixels(), model, cache=tmp_path)
        assert np.array_equal(found, extract_features(pixels(), model, cache=False))
    finally:
        LeNet.forward = plain


SERVER = """
import json, os, signal, sys
import numpy as np, torch
torch.set_num_threads(1)
from equipoise.models import ImageBackbone, LeNet, extract_features, feature_store
from equipoise.models.image_network import ImageInput

def extract(folder, stop_at, every, name):
    feature_store.SECONDS_BETWEEN_RECORDS = every
    torch.manual_seed(0)
    model = ImageBackbone(ImageInput(1), LeNet())
    x = np.random.default_rng(0).integers(0, 256, (45, 1, 28, 28), dtype=np.uint8)
    def progress(done, total):
        with open(f"{folder}/progress-{name}", "a") as file:
            file.write(f"{done} ")
        if done == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)
    np.save(f"{folder}/result-{name}", extract_features(x, model, cache=folder, batch_size=4, progress=progress))

for line in sys.stdin:
    folder, stop_at, every, names = json.loads(line)
    children = []
    for name in names:
        child = os.fork()
        if not child:
            extract(folder, stop_at, every, name)
            os._exit(0)
        children.append(child)
    print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children), flush=True)
"""


@pytest.fixture(scope="module")
def extract_elsewhere():
    """Extracts in processes of their own, several at once or killed after some rows: their exits, their progress."""
    if not hasattr(os, "fork"):
        pytest.skip("processes are forked and killed")
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(folder, *names, stop_at=-1, every=0.0):
        server.stdin.write(json.dumps([str(folder), stop_at, every, names]) + "\n")
        server.stdin.flush()
        exits = [int(code) for code in server.stdout.readline().split()]
        return exits, [[int(done) for done in (folder / f"progress-{name}").read_text().split()] for name in names]

    yield run
    server.communicate()


@pytest.mark.slow
def test_killed_again_and_again_it_goes_on_and_ends_bit_for_bit_the_same(tmp_path, extract_elsewhere):
    right = np.array(extract_features(pixels(), network(), cache=False, batch_size=4))
    done = []
    for stop_at in (8, 36):
        exits, progress = extract_elsewhere(tmp_path, str(stop_at), stop_at=stop_at)
        assert exits == [-signal.SIGKILL]
        assert not list(tmp_path.glob("*.npy"))
        done += progress
    counted = Counted()
    found = extract_features(pixels(), network(), cache=tmp_path, batch_size=4, progress=counted)
    assert done == [[0, 4, 8], [8, 12, 16, 20, 24, 28, 32, 36]]
    assert counted.done == [36, 40, 44, 45]
    assert np.array_equal(found, right)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_rows_written_after_the_last_record_are_not_trusted(tmp_path, extract_elsewhere):
    extract_elsewhere(tmp_path, "a", stop_at=24, every=1e9)
    (record,) = tmp_path.glob("*.json")  # the first batch is recorded at once, the others would be after 10^9 s
    (part,) = tmp_path.glob("*.part")
    assert sum(rows for rows, _ in json.loads(record.read_text())["parts"]) == 4
    with part.open("ab") as file:
        file.write(b"x" * 5000)
    counted = Counted()
    found = extract_features(pixels(), network(), cache=tmp_path, batch_size=4, progress=counted)
    assert counted.done[:2] == [4, 8]
    assert np.array_equal(found, extract_features(pixels(), network(), cache=False, batch_size=4))


def test_rows_of_an_interrupted_run_that_rotted_are_computed_again(tmp_path, extract_elsewhere):
    extract_elsewhere(tmp_path, "a", stop_at=24)
    (part,) = tmp_path.glob("*.part")
    content = bytearray(part.read_bytes())
    content[128 + 13 * 500 * 4] ^= 1  # in row 13, of the fourth batch
    part.write_bytes(content)
    counted = Counted()
    found = extract_features(pixels(), network(), cache=tmp_path, batch_size=4, progress=counted)
    assert counted.done[:2] == [12, 16]
    assert np.array_equal(found, extract_features(pixels(), network(), cache=False, batch_size=4))


def test_killed_between_the_last_row_and_the_name(tmp_path):
    model = network()
    right = np.array(extract_features(pixels(), model, cache=tmp_path))
    (path,) = tmp_path.glob("*.npy")
    path.rename(path.with_name(path.name + ".part"))
    counted = Counted()
    assert np.array_equal(extract_features(pixels(), model, cache=tmp_path, progress=counted), right)
    assert counted.done == [ROWS]
    assert path.exists()


def test_two_processes_at_once_do_the_work_once(tmp_path, extract_elsewhere):
    exits, progress = extract_elsewhere(tmp_path, "a", "b")
    assert exits == [0, 0]
    assert sorted(progress) == [[0, *range(4, 45, 4), 45], [45]]
    first, second = (np.load(path) for path in tmp_path.glob("result-*.npy"))
    assert np.array_equal(first, second)
    assert np.array_equal(first, extract_features(pixels(), network(), cache=False, batch_size=4))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidInputError, match="features cannot be kept in"):
        extract_features(pixels(), network(), cache=tmp_path)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"features cannot be kept in .* pass cache=FOLDER .* or cache=False"):
        extract_features(pixels(), network(), cache=tmp_path / "file")


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (pixels().astype(np.float32), r"images must be uint8, .* got float32 of shape \(45, 1, 28, 28\)"),
        (pixels()[:, 0], r"images must be uint8, .* got uint8 of shape \(45, 28, 28\)"),
        (pixels()[:0], r"at least one, got uint8 of shape \(0, 1, 28, 28\)"),
        ([1, 2], r"got list of shape \(\)"),
    ],
)
def test_images_that_are_none(x, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        extract_features(x, network(), cache=False)


def test_a_batch_of_none_and_backbones_that_give_no_features(tmp_path):
    with pytest.raises(InvalidInputError, match="batch_size must be at least 1, got 0"):
        extract_features(pixels(), network(), cache=tmp_path, batch_size=0)
    with pytest.raises(InvalidInputError, match=r"must give \(images, features\), got the shape \(1, 1, 28, 28\)"):
        extract_features(pixels(), nn.Identity(), cache=tmp_path)
    model = network()
    with torch.no_grad():
        model.body.fc1.bias.fill_(torch.inf)
    with pytest.raises(InvalidInputError, match="returned non-finite features; check its weights"):
        extract_features(pixels(), model, cache=tmp_path)
