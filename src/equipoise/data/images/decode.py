"""Decoding of one image file into pixels, whatever its format, mode, orientation and size."""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from equipoise.errors import InvalidInputError, Muted, reason

Fit = Literal["crop", "pad", "stretch"]
Size = tuple[int, int]  # height, width
Pixels = NDArray[np.uint8]

MANY_PIXELS, PIXELS_A_BYTE = 2**24, 10_000
"""Images beyond this many pixels need one byte per 10,000: even the emptiest PNG has 8,256 per byte."""
LIMIT_PIXELS = 64_000_000
LIMIT_BYTES = 2**30
INSIDE = "\0"
"""Between the path of a file and a place inside it, ``OFFSET+SIZE``; no path has it."""
# Formats decoded in-process, none that starts another program (EPS does); the most common first.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000", "AVIF")
_PILLOW = Muted(module=r"PIL(\.|$)")
PREVIEW = (32, 32)  # for this size a JPEG is decoded at an eighth: all bytes are read, and fast
GREY_MODES = frozenset({"1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N"})
EXIF_ORIENTATION = 0x0112
UPRIGHT = {  # value of the tag -> the rotation that undoes it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class UnreadableImageError(InvalidInputError):
    """A file that cannot be decoded as an image; ``reason`` says why in a few words.

    ``passing`` means that a later attempt may succeed: the disk, the permissions or the memory failed, not the file.
    """

    def __init__(self, message: str, *, reason: str, passing: bool = False) -> None:
        super().__init__(message)
        self.reason, self.passing = reason, passing

    def __reduce__(self) -> tuple[object, ...]:
        return _unreadable, (str(self), self.reason, self.passing)


def _unreadable(message: str, reason: str, passing: bool) -> UnreadableImageError:
    return UnreadableImageError(message, reason=reason, passing=passing)


def decode_image(
    source: str | os.PathLike[str] | bytes, *, size: Size, channels: int, fit: Fit = "crop", limit: int = LIMIT_PIXELS
) -> Pixels:
    """Decode an image file, or its bytes, into pixels (channels, height, width).

    Raises :class:`UnreadableImageError` for files that are not images or have more than ``limit`` pixels.

    The image is rotated upright by its EXIF tag; an animation gives its first frame; transparent pixels become white;
    16-bit grey becomes 8-bit; CMYK and palettes become RGB. ``fit="crop"`` scales the shorter side and crops the longer
    one to its centre, ``"pad"`` scales the longer side and pads the shorter one with black, ``"stretch"`` changes the
    aspect ratio.
    """
    if channels not in (1, 3) or min(size) < 1 or fit not in get_args(Fit):
        raise InvalidInputError(
            f"channels must be 1 or 3, size positive and fit one of {', '.join(get_args(Fit))}; "
            f"got {channels}, {size} and {fit!r}."
        )
    content = source if isinstance(source, bytes) else read_bytes(source)
    name = "the image" if isinstance(source, bytes) else repr(os.fspath(source))
    with _failures_as_one(name), _PILLOW, open_image(content, limit=limit) as image:
        return _pixels(image, size, channels, fit)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a file unless it is too large to be one image; a path may name a part of a file, see ``INSIDE``."""
    path, inside, place = os.fspath(path).partition(INSIDE)
    with _failures_as_one(repr(path)), open(path, "rb") as file:
        if inside:
            offset, size = map(int, place.split("+"))
            file.seek(offset)
            content = file.read(min(size, LIMIT_BYTES))
            if len(content) < size:
                raise ValueError("the shard is cut short, or the image too large")
            return content
        if os.fstat(file.fileno()).st_size > LIMIT_BYTES:
            raise ValueError(f"the file is larger than {LIMIT_BYTES:,} bytes")
        return file.read()


def header(content: bytes) -> tuple[int, int, str]:
    """Return height, width (upright) and Pillow's mode of an image."""
    with _failures_as_one("the image"), _PILLOW, open_image(content) as image:
        return (*_upright_size(image), image.mode)


def examine(content: bytes) -> tuple[int, int, str, int]:
    """Decode an image fully to validate it, and discard the pixels.

    Returns height, width (upright), Pillow's mode, and the largest value if pixels have more than 8 bits, otherwise 0.
    """
    with _failures_as_one("the image"), _PILLOW, open_image(content) as image:
        (height, width), mode = _upright_size(image), image.mode
        _pixels(image, PREVIEW, 3, "stretch")
        return height, width, mode, int(np.asarray(image).max()) if mode.startswith("I") else 0


def _upright_size(image: Image.Image) -> Size:
    width, height = image.size if _orientation(image) < 5 else image.size[::-1]
    return height, width


def open_image(content: bytes, *, limit: int = LIMIT_PIXELS) -> Image.Image:
    """Open an image and read its header; refuse decompression bombs."""
    if not content:
        raise ValueError("the file is empty")
    image = Image.open(io.BytesIO(content), formats=FORMATS)
    if image.width * image.height > limit:
        raise ValueError(f"{image.width} × {image.height} pixels are more than the limit of {limit:,}")
    if image.width * image.height > max(MANY_PIXELS, PIXELS_A_BYTE * len(content)):
        raise ValueError(f"{image.width} × {image.height} pixels cannot be in its {len(content):,} bytes")
    return image


def _pixels(image: Image.Image, size: Size, channels: int, fit: Fit) -> Pixels:
    orientation = _orientation(image)
    height, width = size if orientation < 5 else size[::-1]  # as stored in the file: 5 to 8 are rotated by 90°
    mode = "L" if channels == 1 else "RGB"
    if image.format == "JPEG":
        # Twice the result: at that size the decoder's own scaling by 2, 4 or 8 is invisible, and much faster.
        image.draft(mode, _covering(image.size, (2 * width, 2 * height)))
    plain = _flat(image).convert(mode)
    scaled = _fitted(plain, (width, height), fit)
    if orientation in UPRIGHT:
        scaled = scaled.transpose(UPRIGHT[orientation])
    array = np.asarray(scaled, dtype=np.uint8)
    return np.ascontiguousarray(array[None] if channels == 1 else array.transpose(2, 0, 1))


def _orientation(image: Image.Image) -> int:
    if image.format == "TIFF":  # Pillow rotates these itself
        return 1
    try:
        value = image.getexif().get(EXIF_ORIENTATION, 1)
    except Exception:  # a damaged tag says nothing about the pixels
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _covering(image: Size, wanted: Size) -> Size:
    """Return the smallest size of the image's own shape that covers the wanted size."""
    scale = max(wanted[0] / image[0], wanted[1] / image[1])
    return max(1, int(image[0] * scale)), max(1, int(image[1] * scale))


def _flat(image: Image.Image) -> Image.Image:
    """Convert to eight bits without transparency."""
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65_535:
            raise ValueError("it has 32-bit pixels of unknown range; save it with 8 or 16 bits")
        return Image.fromarray((values // 256).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("it has floating-point pixels of unknown range; save it with 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        straight = image.convert("RGBA")
        ground = Image.new("RGBA", straight.size, "white")
        return Image.alpha_composite(ground, straight).convert("RGB")
    return image.convert("RGB") if image.mode == "P" else image


def _fitted(image: Image.Image, size: Size, fit: Fit) -> Image.Image:
    if image.size == size:
        return image
    if fit == "stretch":
        return image.resize(size, Image.Resampling.BILINEAR)
    return (ImageOps.pad if fit == "pad" else ImageOps.fit)(image, size, Image.Resampling.BILINEAR)


@contextlib.contextmanager
def _failures_as_one(name: str) -> Iterator[None]:
    """Turn a decoder's errors, which may be of any type, into one."""
    try:
        yield
    except UnreadableImageError:
        raise
    except Exception as error:
        unknown = isinstance(error, UnidentifiedImageError)
        why = "it is not an image of a known format" if unknown else reason(error)
        passing = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None)
        raise UnreadableImageError(f"{name} cannot be read: {why}.", reason=why, passing=passing) from error
