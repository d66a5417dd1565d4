"""Memory of a parent and two workers while 200,000 image files stream through a loader; writes JSON."""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import equipoise
from equipoise.data.images import read_images
from equipoise.data.images.images_on_disk import steady_heap

RESULT = Path(__file__).parent / "results/image_memory.json"
HEIGHT, WIDTH = 218, 178  # CelebA's
SIDE, BATCH, WORKERS, SEED = 64, 256, 2, 0
DISTINCT = 64  # pictures; the other names are links to them
MARKS = (0.02, 0.25, 0.5, 0.75, 1.0)  # shares of the epoch at which memory is read


class Batches(Dataset[Tensor]):
    """Whatever gives the pixels of a list of rows, as a data set."""

    def __init__(self, rows: int, read: Callable[[list[int]], NDArray[np.uint8]]) -> None:
        self.rows, self.read = rows, read

    def __len__(self) -> int:
        return self.rows

    def __getitems__(self, rows: list[int]) -> Tensor:
        return torch.from_numpy(self.read(rows))


def make_files(folder: Path, count: int) -> None:
    """``count`` names in two class folders, links to a few JPEG files of smooth colours."""
    rng = np.random.default_rng(SEED)
    originals = folder / ".originals"
    originals.mkdir()
    for number in range(DISTINCT):
        coarse = rng.integers(0, 256, (14, 11, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((WIDTH, HEIGHT), 2).save(originals / f"{number}.jpg", quality=90)
    for name in ("smiling", "serious"):
        (folder / name).mkdir()
    for number in range(count):
        label = "smiling" if number % 3 else "serious"
        os.link(originals / f"{number % DISTINCT}.jpg", folder / label / f"{number:06d}.jpg")


def memory_of(pid: int) -> dict[str, int]:
    """Resident megabytes of a process, and those that it shares with no other."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        found[name] = int(value.split()[0])
    return {
        "resident_mb": found["Rss"] // 1024,
        "own_mb": (found["Private_Clean"] + found["Private_Dirty"]) // 1024,
    }


def stream(data: Batches) -> Iterator[dict[str, object]]:
    """One shuffled epoch; the memory of all processes at the marks."""
    order = RandomSampler(data, generator=torch.Generator().manual_seed(SEED))  # type: ignore[arg-type]
    sampler = BatchSampler(order, BATCH, drop_last=False)
    loader = DataLoader(data, batch_sampler=sampler, num_workers=WORKERS, collate_fn=torch.clone)
    marks = [max(1, round(share * len(loader))) for share in MARKS]
    start = time.perf_counter()
    for number, batch in enumerate(loader, start=1):
        assert batch.shape[1:] == (3, SIDE, SIDE)
        if number in marks:
            workers = [memory_of(child.pid) for child in multiprocessing.active_children() if child.pid]
            yield {
                "images": min(number * BATCH, len(data)),
                "seconds": round(time.perf_counter() - start, 1),
                "parent": memory_of(os.getpid()),
                "workers": workers,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, object] = {
        "versions": {
            "equipoise": equipoise.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "pillow": PIL.__version__,
            "python": sys.version.split()[0],
        },
        "seed": SEED,
        "shape": {"images": options.images, "file": [HEIGHT, WIDTH], "read": [SIDE, SIDE], "batch": BATCH},
        "workers": WORKERS,
    }
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name), options.images)
        start = time.perf_counter()
        samples = read_images(name, size=SIDE, channels=3, check=False)
        result["seconds_to_list"] = round(time.perf_counter() - start, 1)
        assert len(samples) == options.images
        result["equipoise"] = list(stream(Batches(len(samples), samples.x.__getitem__)))
        print(json.dumps(result["equipoise"]), flush=True)
        # The same loader on a list of path objects, which decodes nothing: what the names alone cost its workers. The
        # allocator is set as for our images, or its gaps would be counted with the copied pages.
        paths, blank = list(samples.x.paths), np.zeros((3, SIDE, SIDE), dtype=np.uint8)

        def look(rows: list[int]) -> NDArray[np.uint8]:
            steady_heap()
            return np.stack([blank for row in rows if paths[row].name])

        control = Batches(len(paths), look)
        result["list_of_paths"] = list(stream(control))
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
