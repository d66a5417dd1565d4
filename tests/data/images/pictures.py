"""Image files which the tests make."""

import io
from pathlib import Path

import numpy as np
from PIL import Image


def noise(seed: int = 0, height: int = 40, width: int = 48, channels: int = 3) -> np.ndarray:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def write(path: Path, seed: int = 0, **shape: int) -> Path:
    """A picture of noise, of the format that the name tells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(seed, **shape)).save(path)
    return path


def class_folder(root: Path, counts: dict[str, int], **shape: int) -> Path:
    """``root/CLASS/0.png`` and so on; no two pictures alike."""
    seed = 0
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            write(root / name / f"{number}.png", seed, **shape)
            seed += 1
    return root
