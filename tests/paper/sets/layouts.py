"""Tiny folders in the official layout of each data set, with random pixels and known labels."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from equipoise.paper.sets.celeba import ATTRIBUTES
from equipoise.paper.sets.cifar10 import NAMES
from equipoise.paper.sets.dermofit import CLASSES

random = np.random.default_rng(7)


def write_image(path: Path, *, size: tuple[int, int] = (8, 6), grey: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size if grey else (*size, 3)
    Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8)).save(path)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(side.to_bytes(4, "big") for side in array.shape)
    return header + array.astype(np.uint8).tobytes()


def mnist(folder: Path, *, packed: bool = True) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        "train-images-idx3-ubyte": random.integers(0, 256, (20, 28, 28)),
        "train-labels-idx1-ubyte": np.arange(20) % 10,
        "t10k-images-idx3-ubyte": random.integers(0, 256, (10, 28, 28)),
        "t10k-labels-idx1-ubyte": np.arange(10)[::-1],
    }
    for name, array in arrays.items():
        content = idx(array)
        (folder / f"{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(content) if packed else content)
    return arrays


def cifar_arrays() -> dict[str, tuple[np.ndarray, list[int]]]:
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    return {
        name: (random.integers(0, 256, (4, 3072), dtype=np.uint8), random.integers(0, 10, 4).tolist()) for name in names
    }


def cifar10_binary(folder: Path) -> dict[str, tuple[np.ndarray, list[int]]]:
    place = folder / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    arrays = cifar_arrays()
    for name, (pixels, labels) in arrays.items():
        records = np.concatenate([np.array(labels, np.uint8)[:, None], pixels], axis=1)
        (place / f"{name}.bin").write_bytes(records.tobytes())
    return arrays


def cifar10_images(folder: Path, *, ending: str = "png") -> None:
    for part, count in (("train", 2), ("test", 1)):
        for label in NAMES:
            for number in range(count):
                write_image(folder / part / label / f"{number:04d}.{ending}", size=(32, 32))


def cifar100_binary(folder: Path, *, train: int = 1, test: int = 1) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """So many training and test images of each class; the coarse labels are as many as a byte holds."""
    place = folder / "cifar-100-binary"
    place.mkdir(parents=True)
    arrays = {}
    for part, count in (("train", train), ("test", test)):
        pixels, labels = random.integers(0, 256, (100 * count, 3072), dtype=np.uint8), np.arange(100 * count) % 100
        coarse = random.integers(0, 256, len(labels))
        records = np.column_stack((coarse, labels, pixels)).astype(np.uint8)
        (place / f"{part}.bin").write_bytes(records.tobytes())
        arrays[part] = pixels, labels
    (place / "fine_label_names.txt").write_text("".join(f"class_{number:02d}\n" for number in range(100)) + "\n")
    return arrays


CELEBA_PARTS = [0, 0, 1, 2, 2, 0]


def celeba(folder: Path) -> np.ndarray:
    values = random.choice([-1, 1], (6, ATTRIBUTES))
    names = [f"{number:06d}.jpg" for number in range(1, 7)]
    for name in names:
        write_image(folder / "img_align_celeba" / name, size=(218, 178))
    header = f"6\n{' '.join(f'Attribute_{number}' for number in range(ATTRIBUTES))} \n"
    lines = [f"{name}  {'  '.join(map(str, row))}\n" for name, row in zip(names, values.tolist(), strict=True)]
    (folder / "list_attr_celeba.txt").write_text(header + "".join(lines))
    parts = [f"{name} {part}\n" for name, part in zip(names, CELEBA_PARTS, strict=True)]
    (folder / "list_eval_partition.txt").write_text("".join(parts))
    return values


def dermofit(folder: Path) -> None:
    for place, short in enumerate(CLASSES):
        for number in range(1 + place % 3):
            lesion = f"{short[0]}{number}"
            write_image(folder / short / lesion / f"{lesion}.png", size=(20 + place, 30))
            write_image(folder / short / lesion / f"{lesion}mask.png", size=(20 + place, 30), grey=True)


HAM_ROWS = [
    ("HAM_1", "ISIC_0000001", "nv"),
    ("HAM_1", "ISIC_0000002", "nv"),
    ("HAM_2", "ISIC_0000003", "mel"),
    ("HAM_3", "ISIC_0000004", "df"),
    ("HAM_4", "ISIC_0000005", "akiec"),
    ("HAM_5", "ISIC_0000006", "bcc"),
    ("HAM_6", "ISIC_0000007", "bkl"),
    ("HAM_7", "ISIC_0000008", "vasc"),
]


def ham10000(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{lesion},{image},{dx},histo,80.0,male,scalp\n" for lesion, image, dx in HAM_ROWS]
    header = "lesion_id,image_id,dx,dx_type,age,sex,localization\n"
    (folder / "HAM10000_metadata.csv").write_text(header + "".join(rows))
    for number, (_, image, _) in enumerate(HAM_ROWS):
        write_image(folder / f"HAM10000_images_part_{1 + number % 2}" / f"{image}.jpg", size=(45, 60))


def vggface2(folder: Path) -> None:
    for part, identity, count in (("train", "n000002", 2), ("train", "n000010", 3), ("test", "n000001", 1)):
        for number in range(count):
            write_image(folder / part / identity / f"{number + 1:04d}_01.jpg", size=(30 + number, 40))
    (folder / "identity_meta.csv").write_text(
        "Class_ID, Name, Sample_Num, Flag, Gender\n"
        'n000001, "Dalai_Lama", 424, 0, m\nn000002, "A_Fine_Frenzy", 315, 1, f\n'
        'n000003, "A._A._Gill", 205, 1, m\nn000010, "Aamir_Khan", 400, 1, m\n'
    )


PEOPLE = {"Aaron_Eckhart": 1, "Aaron_Peirsol": 3, "Zoe_Ball": 2}


def lfw(folder: Path) -> None:
    for person, count in PEOPLE.items():
        for number in range(1, count + 1):
            write_image(folder / "lfw" / person / f"{person}_{number:04d}.jpg", size=(25, 25))
    (folder / "legend.csv").write_text(
        "user.id,image,emotion\n628,Aaron_Eckhart_0001.jpg,anger\n302,Aaron_Peirsol_0001.jpg,HAPPINESS\n"
        "302,Aaron_Peirsol_0002.jpg,happiness\ndwdii,Zoe_Ball_0001.jpg,NEUTRAL\ndwdii,Zoe_Ball_0001.jpg,sadness\n"
        "dwdii,Zoe_Ball_0002.jpg,neutral\ndwdii,Zoe_Ball_0002.jpg,neutral\n"
        "dwdii,Zoe_Ball_0002.jpg,neutral\n1,Nobody_0001.jpg,fear\n"
    )


def orl(folder: Path) -> None:
    for person in (1, 2, 10):
        for number in (1, 2, 10):
            write_image(folder / f"s{person}" / f"{number}.pgm", size=(112, 92), grey=True)


LAYOUTS: dict[str, Callable[[Path], object]] = {
    "mnist": mnist,
    "fashion_mnist": mnist,
    "cifar10": cifar10_binary,
    "cifar100": cifar100_binary,
    "celeba": celeba,
    "dermofit": dermofit,
    "dermofit_5": dermofit,
    "ham10000": ham10000,
    "vggface2": vggface2,
    "lfw_people": lfw,
    "lfw_expressions": lfw,
    "orl": orl,
}
