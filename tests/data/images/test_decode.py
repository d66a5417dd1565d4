"""Pixels out of any image file, or one sentence why not."""

import io
import pickle
import struct
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from equipoise.data.images import UnreadableImageError, decode_image
from equipoise.data.images.decode import GREY_MODES, examine, header, read_bytes
from equipoise.errors import InvalidInputError
from tests.data.images.pictures import encoded, noise, write


def decoded(content: bytes, height: int = 40, width: int = 48, channels: int = 3, **options) -> np.ndarray:
    return decode_image(content, size=(height, width), channels=channels, **options)


def corners(height: int = 40, width: int = 60) -> np.ndarray:
    """Black, with red at the top left, green at the top right, blue at the bottom left."""
    image = np.zeros((height, width, 3), dtype=np.uint8)
    image[: height // 4, : width // 4, 0] = 255
    image[: height // 4, -width // 4 :, 1] = 255
    image[-height // 4 :, : width // 4, 2] = 255
    return image


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_lossless_files_give_their_own_pixels(kind, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(encoded(Image.fromarray(noise()), kind))
    out = decode_image(path, size=(40, 48), channels=3)
    assert out.dtype == np.uint8
    assert out.flags.c_contiguous
    assert np.array_equal(out, noise().transpose(2, 0, 1))
    assert np.array_equal(decode_image(str(path), size=(40, 48), channels=3), out)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "JPEG2000"])
def test_lossy_files_give_nearly_their_pixels(kind):
    ramp = np.broadcast_to(np.linspace(0, 255, 48).round()[None, :, None], (40, 48, 3)).astype(np.uint8)
    out = decoded(encoded(Image.fromarray(ramp), kind))
    assert np.abs(out.transpose(1, 2, 0).astype(int) - ramp).max() < 12


def test_a_large_jpeg_scaled_while_decoding_is_that_scaled_afterwards():
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (12, 15, 3), dtype=np.uint8)).resize((1500, 1200), 2)
    content = encoded(smooth, "JPEG", quality=95)
    full = Image.open(io.BytesIO(content)).convert("RGB").resize((50, 40), Image.Resampling.BILINEAR)
    out = decoded(content, 40, 50).transpose(1, 2, 0)
    assert np.abs(out.astype(int) - np.asarray(full)).mean() < 1.5
    grey = decoded(content, 40, 50, 1)[0]
    assert np.abs(grey.astype(int) - np.asarray(full.convert("L"))).mean() < 1.5


def test_colour_becomes_grey_by_luma_and_grey_becomes_three_equal_channels():
    out = decoded(encoded(Image.fromarray(noise())), channels=1)
    luma = noise().astype(float) @ [0.299, 0.587, 0.114]
    assert out.shape == (1, 40, 48)
    assert np.abs(out[0] - luma).max() <= 1
    grey = decoded(encoded(Image.fromarray(noise(channels=1))))
    assert np.array_equal(grey, np.broadcast_to(noise(channels=1), (3, 40, 48)))


def test_transparent_pixels_are_white_and_half_transparent_ones_half():
    rgba = np.zeros((2, 3, 4), dtype=np.uint8)
    rgba[:, :, 3] = [[0, 255, 128]] * 2  # black, at three strengths
    out = decoded(encoded(Image.fromarray(rgba)), 2, 3)
    assert out[:, 0].tolist() == [[255, 0, 127]] * 3
    grey = Image.fromarray(rgba[:, :, [0, 3]].copy())
    assert decoded(encoded(grey), 2, 3, 1)[0, 0].tolist() == [255, 0, 127]


def test_palettes_with_and_without_a_transparent_colour_are_taken():
    palette = Image.fromarray(np.array([[0, 1, 2]], dtype=np.uint8))
    palette.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    assert decoded(encoded(palette), 1, 3)[:, 0].T.tolist() == [[10, 20, 30], [40, 50, 60], [70, 80, 90]]
    for transparency in (1, b"\xff\x00\xff"):
        out = decoded(encoded(palette, transparency=transparency), 1, 3)
        assert out[:, 0].T.tolist() == [[10, 20, 30], [255, 255, 255], [70, 80, 90]]


def test_black_and_white_sixteen_bit_and_cmyk_become_eight_bits():
    bits = Image.fromarray(np.array([[0, 255]], dtype=np.uint8)).convert("1")
    assert decoded(encoded(bits), 1, 2, 1).ravel().tolist() == [0, 255]
    deep = Image.fromarray(np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16))
    for kind in ("PNG", "TIFF"):
        assert decoded(encoded(deep, kind), 1, 5, 1).ravel().tolist() == [0, 0, 1, 128, 255]
    assert decoded(b"P5 2 1 65535\n\x80\x00\xff\xff", 1, 2, 1).ravel().tolist() == [128, 255]
    cyan = Image.new("CMYK", (48, 40), (255, 0, 0, 0))
    assert np.abs(decoded(encoded(cyan, "TIFF"))[:, 5, 5].astype(int) - [0, 255, 255]).max() == 0
    assert np.abs(decoded(encoded(cyan, "JPEG"))[:, 5, 5].astype(int) - [0, 255, 255]).max() < 8


@pytest.mark.parametrize("values", [np.full((4, 4), 70_000, np.int32), np.full((4, 4), -1, np.int32), np.ones((4, 4))])
def test_pixels_of_unknown_range_are_refused(values):
    image = Image.fromarray(values.astype(np.float32) if values.dtype == float else values)
    with pytest.raises(UnreadableImageError, match="unknown range; save it with 8 or 16 bits"):
        decoded(encoded(image, "TIFF"))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_every_exif_orientation_is_turned_upright(orientation, kind):
    upright = Image.fromarray(corners())
    # how a camera held that way would have stored it: the inverse of what the tag says to do
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(undo[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(stored, kind, exif=exif)
    out = decoded(content, 40, 60).transpose(1, 2, 0).astype(int)
    assert np.abs(out - corners()).mean() < 5
    assert header(content)[:2] == (40, 60)


def test_a_damaged_exif_tag_is_no_reason_to_refuse():
    content = encoded(Image.fromarray(noise()), "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff broken")
    assert decoded(content).shape == (3, 40, 48)


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (48, 40), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "TIFF", "WEBP"):
        options = {} if kind == "TIFF" else {"lossless": True} if kind == "WEBP" else {"loop": 0}
        content = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert decoded(content)[:, 5, 5].tolist() == [255, 0, 0]


def test_crop_keeps_the_aspect_ratio_and_the_centre():
    wide = np.zeros((20, 60, 3), dtype=np.uint8)
    wide[:, 20:40, 0] = 255
    out = decoded(encoded(Image.fromarray(wide)), 20, 20)
    assert (out[0] == 255).all()
    tall = decoded(encoded(Image.fromarray(wide.transpose(1, 0, 2).copy())), 10, 10)
    assert (tall[0, 1:-1] == 255).all()  # the filter of the outer rows reaches beyond the cut
    assert np.array_equal(tall[1], np.zeros((10, 10)))


def test_crop_is_the_shorter_side_scaled_and_the_longer_cut():
    smooth = np.asarray(Image.fromarray(noise(1, 6, 9)).resize((92, 60), 2))
    out = decoded(encoded(Image.fromarray(smooth)), 30, 30).transpose(1, 2, 0)
    slow = np.asarray(Image.fromarray(smooth).resize((46, 30), 2))[:, 8:38]
    assert np.abs(out.astype(int) - slow).max() <= 1


def test_pad_leaves_black_beside_and_stretch_fills():
    white = encoded(Image.new("RGB", (60, 20), "white"))
    padded = decoded(white, 30, 30, fit="pad")
    assert (padded[:, 10:20] == 255).all()
    assert (padded[:, :10] == 0).all()
    assert (padded[:, 20:] == 0).all()
    half = np.zeros((20, 60, 3), dtype=np.uint8)
    half[:, 30:] = 255
    stretched = decoded(encoded(Image.fromarray(half)), 30, 30, fit="stretch")
    assert (stretched[:, :, :14] == 0).all()
    assert (stretched[:, :, 16:] == 255).all()


@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1), (1, 1), (3, 2)])
@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_any_shape_gives_the_size_asked_for(shape, fit):
    content = encoded(Image.fromarray(noise(0, *shape)))
    assert decoded(content, 17, 31, fit=fit).shape == (3, 17, 31)


def test_more_pixels_than_the_bytes_can_hold_are_refused_before_memory_is_taken():
    empty = encoded(Image.new("1", (5000, 5000)), "PNG")  # nothing is emptier, and it is read
    assert decoded(empty).shape[0] == 3
    header = struct.pack("<2sIIIIiiHHIIIIII", b"BM", 99, 0, 54, 40, 5000, 5000, 1, 24, 0, 0, 0, 0, 0, 0)
    with pytest.raises(UnreadableImageError, match=r"5000 × 5000 pixels cannot be in its \d+ bytes"):
        decoded(header + bytes(40))


def test_a_bomb_is_refused_before_it_is_decoded():
    bomb = encoded(Image.new("1", (10_000, 9_000)))
    assert len(bomb) < 100_000
    with pytest.raises(UnreadableImageError, match="10000 × 9000 pixels are more than the limit of 64,000,000"):
        decoded(bomb)
    huge = encoded(Image.new("1", (20_000, 10_000)))  # Pillow itself refuses this one
    with pytest.raises(UnreadableImageError, match="200000000 pixels"):
        decoded(huge)
    at_limit = encoded(Image.fromarray(noise()))
    assert decoded(at_limit, limit=40 * 48).shape == (3, 40, 48)
    with pytest.raises(UnreadableImageError, match="more than the limit of 1,919"):
        decoded(at_limit, limit=40 * 48 - 1)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_truncated_file_is_an_error(kind):
    content = encoded(Image.fromarray(noise()), kind)
    with pytest.raises(UnreadableImageError, match="cannot be read: "):
        decoded(content[: len(content) * 2 // 3])
    with pytest.raises(UnreadableImageError, match="cannot be read: "):
        examine(content[: len(content) * 2 // 3])


def test_the_error_names_the_file_and_the_reason(tmp_path):
    (tmp_path / "empty.jpg").touch()
    with pytest.raises(UnreadableImageError, match=r"empty\.jpg' cannot be read: the file is empty\.$"):
        decode_image(tmp_path / "empty.jpg", size=(8, 8), channels=3)
    (tmp_path / "text.jpg").write_text("this is no image at all")
    with pytest.raises(
        UnreadableImageError, match=r"text\.jpg' cannot be read: it is not an image of a known format\.$"
    ):
        decode_image(tmp_path / "text.jpg", size=(8, 8), channels=3)
    with pytest.raises(UnreadableImageError, match=r"gone\.jpg' cannot be read: No such file or directory\.$") as gone:
        decode_image(tmp_path / "gone.jpg", size=(8, 8), channels=3)
    assert gone.value.reason == "No such file or directory"
    again = pickle.loads(pickle.dumps(gone.value))  # as it comes back from a worker process
    assert (str(again), again.reason) == (str(gone.value), gone.value.reason)


def test_a_file_too_large_to_be_an_image_is_not_read(tmp_path):
    with (tmp_path / "sparse.jpg").open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(UnreadableImageError, match="larger than 1,073,741,824 bytes"):
        read_bytes(tmp_path / "sparse.jpg")


def test_postscript_is_not_handed_to_another_program():
    with pytest.raises(UnreadableImageError, match="not an image of a known format"):
        decoded(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")


@pytest.mark.parametrize(("size", "channels", "fit"), [((0, 4), 3, "crop"), ((4, 4), 2, "crop"), ((4, 4), 3, "squash")])
def test_impossible_requests_are_refused(size, channels, fit):
    with pytest.raises(InvalidInputError, match="channels must be 1 or 3, size positive and fit one of"):
        decode_image(b"", size=size, channels=channels, fit=fit)


def outcome(content: bytes) -> bool:
    """Whether the bytes give an image of the right shape, or one line that says why not."""
    try:
        return decoded(content, 8, 8).shape == (3, 8, 8)
    except UnreadableImageError as error:
        return bool(error.reason) and "\n" not in str(error)


@given(
    st.binary(max_size=400), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF89a", b"II*\0"])
)
def test_random_bytes_are_an_image_or_the_one_error(content, start):
    assert outcome(start + content)


GOOD = {
    kind: encoded(Image.fromarray(noise(0, 12, 12)), kind)
    for kind in ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000")
}


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_good_files_with_flipped_bytes_are_an_image_or_the_one_error(kind, data):
    content = bytearray(GOOD[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(content))


def test_warnings_of_pillow_are_silent_in_threads_and_filters_are_restored():
    large = encoded(Image.new("1", (10_000, 9_000)))  # Pillow warns of these many pixels

    def attempt(_: int) -> str:
        with pytest.raises(UnreadableImageError, match="more than the limit") as refused:
            decoded(large)
        return refused.value.reason

    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(attempt, range(12)))) == 1
    assert list(warnings.filters) == before


def test_grey_is_told_from_colour_by_the_header(tmp_path):
    assert header(encoded(Image.fromarray(noise(channels=1))))[2] in GREY_MODES
    assert header(encoded(Image.fromarray(np.zeros((4, 4), np.uint16))))[2] in GREY_MODES
    assert header(read_bytes(write(tmp_path / "x.jpg")))[2] not in GREY_MODES


def test_a_missing_file_or_memory_passes_and_a_damaged_file_stays(tmp_path):
    with pytest.raises(UnreadableImageError, match="No such file") as gone:
        read_bytes(tmp_path / "x.png")
    assert gone.value.passing
    assert pickle.loads(pickle.dumps(gone.value)).passing
    content = encoded(Image.fromarray(noise()), "PNG")
    for damaged in (b"", b"nonsense", content[: len(content) // 2]):  # Pillow's own OSErrors among them
        with pytest.raises(UnreadableImageError, match="cannot be read") as broken:
            decoded(damaged)
        assert not broken.value.passing


@pytest.mark.parametrize(("values", "deepest"), [(np.uint16([[0, 4095]]), 4095), (np.uint8([[0, 255]]), 0)])
def test_the_largest_value_of_deep_pixels_is_told(values, deepest):
    assert examine(encoded(Image.fromarray(values)))[0:4:3] == (1, deepest)
