"""Small folders of faces, lists of pairs and .bin files."""

import io
from pathlib import Path

import numpy as np
from PIL import Image


def encoded(level: int = 0, *, side: int = 8, kind: str = "PNG") -> bytes:
    """An image file's bytes; another picture for each level."""
    rng = np.random.default_rng(level)
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(buffer, format=kind)
    return buffer.getvalue()


def write_faces(root: Path, names: list[str]) -> Path:
    """An image for each name."""
    for level, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encoded(level))
    return root


def write_list(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


LFW_LINES = ("2\t2", "Ann\t1\t2", "Ann\t1\t3", "Ann\t1\tBob\t1", "Ann\t3\tBob\t2")
LFW_LINES += ("Cid\t1\t2", "Dee\t1\t2", "Cid\t1\tDee\t1", "Cid\t2\tDee\t1")
LFW_FACES = [f"{name}_{number:04}.jpg" for name, count in (("Ann", 3), ("Bob", 2), ("Cid", 2), ("Dee", 2))
             for number in range(1, count + 1)]  # fmt: skip
"""Two folds of two pairs of one person and two of two people."""
