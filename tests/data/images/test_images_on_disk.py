"""Images on disk behave like the array they would be."""

import multiprocessing
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from equipoise.cores_and_memory import free_memory
from equipoise.data.images import Images, UnreadableImageError
from equipoise.data.images.check import check_files
from equipoise.data.images.file_table import FileTable
from equipoise.data.images.images_on_disk import steady_heap
from equipoise.errors import InvalidInputError
from tests.data.images.pictures import noise, write

COUNT = 7


@pytest.fixture
def folder(tmp_path):
    for number in range(COUNT):
        write(tmp_path / f"{number}.png", number, height=6, width=5)
    return tmp_path


def images_of(folder, **options) -> Images:
    return Images(folder, [f"{n}.png" for n in range(COUNT)], **({"size": (6, 5), "channels": 3} | options))


def whole() -> np.ndarray:
    return np.stack([noise(n, 6, 5).transpose(2, 0, 1) for n in range(COUNT)])


ROWS = [
    3,
    -1,
    np.int64(2),
    slice(None),
    slice(1, 6, 2),
    slice(None, None, -1),
    [4, 0, 4],
    [],
    np.array([-1, 2]),
    np.arange(COUNT) % 2 == 0,
]


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("cached", [False, True])
def test_indexing_is_that_of_the_array(rows, cached, folder):
    images = images_of(folder)
    images = images.cached() if cached else images
    expected = whole()[np.array(rows, dtype=int)] if isinstance(rows, list) else whole()[rows]
    out = images[rows]
    assert out.dtype == np.uint8
    assert out.shape == expected.shape
    assert np.array_equal(out, expected)


def test_it_tells_what_an_array_tells(folder):
    images = images_of(folder)
    assert (images.shape, images.ndim, len(images), images.dtype) == ((COUNT, 3, 6, 5), 4, COUNT, np.uint8)
    assert images.nbytes == whole().nbytes
    assert np.array_equal(np.asarray(images), whole())
    assert np.asarray(images, dtype=np.float32).dtype == np.float32
    assert repr(images) == "Images(7 × 3 × 6 × 5, on disk)"
    assert repr(images.cached()) == "Images(7 × 3 × 6 × 5, in memory)"
    assert [path.name for path in images.paths] == [f"{n}.png" for n in range(COUNT)]
    assert images.paths[2] == folder / "2.png"
    assert list(images.paths[1:3]) == [folder / "1.png", folder / "2.png"]


def test_rows_that_are_not_there_or_no_list_are_refused(folder):
    with pytest.raises(IndexError, match="out of bounds"):
        images_of(folder)[COUNT]
    with pytest.raises(InvalidInputError, match="an index of 2 dimensions"):
        images_of(folder)[np.zeros((2, 2), dtype=int)]


@pytest.mark.parametrize("cached", [False, True])
def test_a_part_of_a_part_keeps_its_order_and_its_names(cached, folder):
    images = images_of(folder)
    part = (images.cached() if cached else images).take([6, 2, 4, 2]).take(np.array([3, 0, 1]))
    assert part.names == ["2.png", "6.png", "2.png"]
    assert np.array_equal(part[:], whole()[[2, 6, 2]])
    assert np.array_equal(part[1], whole()[6])
    assert np.array_equal(part.cached()[:], whole()[[2, 6, 2]])
    assert part.on_disk != cached


def test_a_cache_is_made_when_it_fits_and_the_files_are_not_read_again(folder):
    images, steps = images_of(folder), []
    assert images.cached(images.nbytes - 1) is images
    kept = images.cached(images.nbytes, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(COUNT, COUNT)]
    assert not kept.on_disk
    assert images.on_disk
    for path in folder.iterdir():
        path.unlink()
    assert np.array_equal(kept[:], whole())
    assert 2**20 < free_memory() < 2**50


def test_a_part_larger_than_one_read_is_cached_in_order(folder, monkeypatch):
    monkeypatch.setattr("equipoise.data.images.images_on_disk.ROWS_AT_ONCE", 3)
    assert np.array_equal(images_of(folder).cached()[:], whole())


def test_the_fingerprint_changes_with_files_order_and_decoding_alone(folder):
    images = images_of(folder)
    same = [images_of(folder), images.take(range(COUNT)), images.cached(), pickle.loads(pickle.dumps(images))]
    assert {image.fingerprint() for image in same} == {images.fingerprint()}
    others = [
        images.take([1, 0, *range(2, COUNT)]),
        images.take(range(6)),
        images_of(folder, size=(5, 6)),
        images_of(folder, channels=1),
        images_of(folder, fit="pad"),
    ]
    write(folder / "3.png", 99, height=6, width=5)
    others.append(images_of(folder))
    assert len({image.fingerprint() for image in [images, *others]}) == 1 + len(others)


def test_names_cannot_run_into_each_other(tmp_path):
    for name in ("ab", "c", "a", "bc"):
        (tmp_path / name).write_bytes(b"")
    one = Images(tmp_path, ["ab", "c"], size=(2, 2), channels=1)
    other = Images(tmp_path, ["a", "bc"], size=(2, 2), channels=1)
    assert one.content_key() != other.content_key()


def bitmaps(folder: Path, seed: int) -> Path:
    """Pictures of one size in bytes and one time, whatever they show."""
    folder.mkdir(exist_ok=True)
    for number in range(COUNT):
        Image.fromarray(noise(seed + number, 6, 5)).save(folder / f"{number}.bmp")
        os.utime(folder / f"{number}.bmp", ns=(10**18, 10**18))
    return folder


def of_bitmaps(folder: Path, *, checked: bool, **options) -> Images:
    table = FileTable.of(folder, [f"{n}.bmp" for n in range(COUNT)])
    table = replace(table, digests=check_files(table).digests) if checked else table
    return Images.of_table(table, **({"size": (6, 5), "channels": 3} | options))


@pytest.mark.parametrize("checked", [True, False])
def test_other_files_of_the_same_names_sizes_and_times_have_another_fingerprint(checked, tmp_path):
    one, other = bitmaps(tmp_path / "one", 0), bitmaps(tmp_path / "other", 50)
    before = of_bitmaps(one, checked=checked).fingerprint()
    assert before != of_bitmaps(other, checked=checked).fingerprint()
    assert before == of_bitmaps(one, checked=checked).fingerprint()
    assert before == of_bitmaps(Path(os.path.relpath(one)), checked=checked).fingerprint()
    bitmaps(one, 70)
    assert before != of_bitmaps(one, checked=checked).fingerprint()


def test_unchecked_files_of_another_folder_are_others_even_if_written_in_the_same_moment(tmp_path):
    tables = [of_bitmaps(bitmaps(tmp_path / name, 0), checked=False).table for name in ("one", "other")]
    tables = [replace(table, times=np.zeros_like(table.times)) for table in tables]
    one, other = (Images.of_table(table, size=(6, 5), channels=3) for table in tables)
    assert one.fingerprint() != other.fingerprint()
    assert one.content_key() == other.content_key()


def test_checked_files_are_known_by_their_content_wherever_they_lie(tmp_path):
    one, copy = bitmaps(tmp_path / "one", 0), bitmaps(tmp_path / "copy", 0)
    for path in copy.iterdir():
        path.touch()
    assert of_bitmaps(one, checked=True).fingerprint() == of_bitmaps(copy, checked=True).fingerprint()
    assert of_bitmaps(one, checked=False).fingerprint() != of_bitmaps(copy, checked=False).fingerprint()
    for checked in (True, False):
        known = of_bitmaps(one, checked=checked)
        assert known.content_key() == of_bitmaps(copy, checked=checked).content_key()
        assert known.content_key() != of_bitmaps(copy, checked=checked, fit="pad").content_key()
        assert known.content_key() != known.take([1, 0, 2, 3, 4, 5, 6]).content_key()
    bitmaps(copy, 50)
    assert of_bitmaps(one, checked=True).content_key() != of_bitmaps(copy, checked=True).content_key()


def test_what_was_left_out_stays_known_to_parts_and_to_the_cache(folder):
    images = images_of(folder)
    images.skipped = (("x.png", "the file is empty"),)
    assert images.take([0]).skipped == images.cached().skipped == images.cached().take([1]).skipped == images.skipped


def test_a_file_that_vanishes_or_breaks_later_is_named(folder):
    images = images_of(folder)
    (folder / "4.png").unlink()
    (folder / "5.png").write_bytes(b"broken")
    with pytest.raises(
        UnreadableImageError, match=r"4\.png' was readable at the start .*\(No such file .*\); restore it"
    ):
        images[[3, 4]]
    with pytest.raises(UnreadableImageError, match=r"5\.png' was readable at the start but is not now"):
        images[5]
    with pytest.raises(InvalidInputError, match=r"the image '4\.png' is not in .*; check the folder"):
        images_of(folder)


def test_large_files_are_decoded_in_threads_with_the_same_result(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.data.images.images_on_disk.cores", lambda: 2)
    for number in range(5):
        write(tmp_path / f"{number}.png", number, height=180, width=180)
    images = Images(tmp_path, [f"{n}.png" for n in range(5)], size=(180, 180), channels=3)
    assert images.table.sizes.min() > 2**16
    assert np.array_equal(images[:], np.stack([noise(n, 180, 180).transpose(2, 0, 1) for n in range(5)]))
    (tmp_path / "3.png").unlink()
    with pytest.raises(UnreadableImageError, match=r"3\.png"):
        images[:]


def test_impossible_sizes_are_refused(folder):
    with pytest.raises(InvalidInputError, match=r"size must be \(height, width\) and channels 1 or 3"):
        images_of(folder, channels=2)
    with pytest.raises(InvalidInputError, match=r"size must be \(height, width\) and channels 1 or 3"):
        images_of(folder, size=(0, 3))


class Rows(torch.utils.data.Dataset):
    """What a loader's worker does with images."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, rows: list[int]) -> torch.Tensor:
        return torch.from_numpy(self.images[rows])


@pytest.mark.parametrize(
    ("method", "cached"), [("fork", False), ("fork", True), pytest.param("spawn", True, marks=pytest.mark.slow)]
)
def test_workers_read_the_same_images(method, cached, folder):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    images = images_of(folder)
    rows = Rows(images.cached() if cached else images)
    loader = DataLoader(rows, batch_size=3, num_workers=1, collate_fn=torch.clone, multiprocessing_context=method)
    assert np.array_equal(torch.cat(list(loader)).numpy(), whole())


def test_the_cache_is_not_pickled(folder):
    images = images_of(folder)
    assert len(pickle.dumps(images.cached())) == len(pickle.dumps(images))
    again = pickle.loads(pickle.dumps(images.cached().take([2, 1])))
    assert again.on_disk
    assert np.array_equal(again[:], whole()[[2, 1]])


def test_many_names_cost_few_bytes(tmp_path):
    Image.fromarray(noise(0, 2, 2)).save(tmp_path / "000000.png")
    names = ["000000.png"] * 20_000
    images = Images(tmp_path, names, size=(2, 2), channels=3)
    assert len(pickle.dumps(images)) < 20_000 * (len(names[0]) + 4 * 8 + 8 + 1)
    assert not any(isinstance(value, list | tuple) and len(value) > 100 for value in vars(images).values())
    assert not any(isinstance(value, list | tuple) for value in vars(images.table).values())


def resident_after(images: Images, batches: int, pipe) -> None:
    """A worker's life: the kilobytes it holds of its own after its first batches, and after all."""
    rng, found = np.random.default_rng(0), []
    for number in range(batches):
        images[rng.integers(0, len(images), 64)]
        if number in (3, batches - 1):
            lines = Path("/proc/self/status").read_text().splitlines()
            found.append(next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
    pipe.send((found, steady_heap.cache_info().currsize))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_worker_s_memory_is_flat_and_its_allocator_is_told_while_ours_is_not(tmp_path):
    for number in range(16):  # of different sizes, all above what an allocator maps by itself at first
        write(tmp_path / f"{number}.jpg", number, height=200 + 7 * number, width=180 + 5 * number)
    images = Images(tmp_path, [f"{n}.jpg" for n in range(16)], size=(64, 64), channels=3)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    steady_heap.cache_clear()
    images[:4]
    assert steady_heap.cache_info().currsize == 0
    worker = context.Process(target=resident_after, args=(images, 10, theirs))
    worker.start()
    (first, last), told = ours.recv()
    worker.join()
    assert told == 1
    assert last - first < 8 * 1024
