"""Dermofit and HAM10000: skin lesions with their classes, a lesion a group."""

import zipfile
from collections import Counter

import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.sets.dermofit import CLASSES, FIVE, class_of, read_dermofit
from equipoise.paper.sets.ham10000 import read_ham10000
from tests.paper.sets.layouts import HAM_ROWS, dermofit, ham10000, write_image


def test_dermofit_has_ten_classes_or_five_without_masks(tmp_path):
    dermofit(tmp_path)
    ten, five = read_dermofit(tmp_path), read_dermofit(tmp_path, classes=FIVE)
    expected = {CLASSES[short][0]: 1 + place % 3 for place, short in enumerate(CLASSES)}
    assert Counter(ten.y.tolist()) == expected
    assert Counter(five.y.tolist()) == {CLASSES[short][0]: expected[CLASSES[short][0]] for short in FIVE}
    assert not any("mask" in path.name for path in ten.x.paths)
    assert len(set(ten.groups)) == len(ten)
    assert ten.x.shape[1:] == (3, 224, 224)
    for path, label, group in zip(ten.x.paths, ten.y, ten.groups, strict=True):
        short, lesion = group.split("/")
        assert path.parts[-3:-1] == (short, lesion)
        assert CLASSES[short][0] == label


def test_the_numbers_of_the_classes_are_the_published_ones():
    assert sum(count for _, count in CLASSES.values()) == 1_300
    assert sum(CLASSES[short][1] for short in FIVE) == 960
    assert (min(count for _, count in CLASSES.values()), max(count for _, count in CLASSES.values())) == (24, 331)


@pytest.mark.parametrize(
    ("folder", "short"),
    [
        ("AK", "AK"),
        ("bcc", "BCC"),
        ("Actinic Keratosis", "AK"),
        ("Actinic Keratosis (AK)", "AK"),
        ("Melanocytic Nevus / Mole (ML)", "ML"),
        ("Melanocytic Nevus _ Mole", "ML"),
        ("seborrhoeic_keratosis", "SK"),
        ("Seborrheic Keratosis", "SK"),
        ("Haemangioma (VASC)", "VASC"),
        ("Hemangioma", "VASC"),
        ("Melanoma", "MEL"),
        ("Malignant Melanoma (MEL)", "MEL"),
        ("Intraepithelial Carcinoma", "IEC"),
        ("Pyogenic Granuloma", "PYO"),
        ("Dermatofibroma", "DF"),
        ("squamous cell carcinoma", "SCC"),
        ("masks", None),
        ("", None),
        ("()", None),
    ],
)
def test_folders_of_classes_are_known_by_many_names(folder, short):
    assert class_of(folder) == short


def test_images_beside_one_another_and_full_names_are_read(tmp_path):
    for short, (name, _) in CLASSES.items():
        write_image(tmp_path / "Dermofit" / f"{name} ({short})" / "A1.png")
        write_image(tmp_path / "Dermofit" / f"{name} ({short})" / "A1mask.png", grey=True)
    samples = read_dermofit(tmp_path)
    assert sorted(samples.y) == sorted(name for name, _ in CLASSES.values())
    assert samples.groups[0] == "AK/A1"


def test_a_zip_a_class_is_read(tmp_path):
    dermofit(tmp_path / "made")
    (tmp_path / "zips").mkdir()
    for short in FIVE:
        with zipfile.ZipFile(tmp_path / "zips" / f"{short}.zip", "w") as archive:
            for path in (tmp_path / "made" / short).rglob("*.png"):
                archive.write(path, path.relative_to(tmp_path / "made"))
    assert Counter(read_dermofit(tmp_path / "zips", classes=FIVE).y) == Counter(
        read_dermofit(tmp_path / "made", classes=FIVE).y
    )


def test_dermofit_says_what_is_missing_or_double(tmp_path):
    dermofit(tmp_path)
    (tmp_path / "PYO").rename(tmp_path / "unknown")
    with pytest.raises(InvalidInputError, match="has no folder for the class PYO, Pyogenic Granuloma"):
        read_dermofit(tmp_path)
    assert len(read_dermofit(tmp_path, classes=FIVE)) > 0
    (tmp_path / "Mole").mkdir()
    with pytest.raises(InvalidInputError, match=r"ML.* and .*Mole.* are both folders of ML|Mole and .*ML are both"):
        read_dermofit(tmp_path, classes=FIVE)
    (tmp_path / "Mole").rmdir()
    for path in (tmp_path / "AK").rglob("*.png"):
        path.unlink()
    with pytest.raises(InvalidInputError, match="AK must hold the images of Actinic Keratosis, but has none"):
        read_dermofit(tmp_path, classes=FIVE)


def test_ham10000_has_its_diagnoses_and_lesions(tmp_path):
    ham10000(tmp_path)
    samples = read_ham10000(tmp_path)
    assert samples.y.tolist() == [dx for _, _, dx in HAM_ROWS]
    assert samples.groups.tolist() == [lesion for lesion, _, _ in HAM_ROWS]
    assert [path.stem for path in samples.x.paths] == [image for _, image, _ in HAM_ROWS]
    assert {path.parent.name for path in samples.x.paths} == {"HAM10000_images_part_1", "HAM10000_images_part_2"}
    assert samples.x.shape == (8, 3, 45, 60)
    assert samples.notes == ()


def test_ham10000_in_the_two_archives_of_its_publication(tmp_path):
    ham10000(tmp_path)
    for part in (1, 2):
        folder = tmp_path / f"HAM10000_images_part_{part}"
        with zipfile.ZipFile(tmp_path / f"HAM10000_images_part_{part}.zip", "w") as archive:
            for path in folder.iterdir():
                archive.write(path, path.name)
                path.unlink()
        folder.rmdir()
    (tmp_path / "HAM10000_metadata.csv").rename(tmp_path / "HAM10000_metadata")
    assert read_ham10000(tmp_path).y.tolist() == [dx for _, _, dx in HAM_ROWS]


def test_ham10000_counts_what_does_not_fit(tmp_path):
    ham10000(tmp_path)
    (tmp_path / "HAM10000_images_part_1" / "ISIC_0000001.jpg").rename(tmp_path / "ISIC_9.jpg")
    write_image(tmp_path / "ISIC_10.jpg")
    samples = read_ham10000(tmp_path)
    assert len(samples) == 7
    assert samples.notes == (
        "1 images of HAM10000_metadata.csv are not there and were left out.",
        "2 images are not in HAM10000_metadata.csv and were left out.",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dx,", "diagnosis,", r"must have the column 'dx', got \["),
        (",mel,", ",melanoma,", r"has the diagnosis 'melanoma', not one of akiec, bcc"),
        ("HAM_2,", ",", r"has no lesion_id or no image_id or no dx in line 4"),
        ("ISIC_", "OTHER_", r"no image in .* is in HAM10000_metadata.csv; expected names such as"),
        ("histo", '"histo', r"cannot be read \(',' expected after '\"'"),
    ],
)
def test_a_damaged_metadata_file_is_one_sentence(tmp_path, old, new, message):
    ham10000(tmp_path)
    path = tmp_path / "HAM10000_metadata.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InvalidInputError, match=message):
        read_ham10000(tmp_path)


def test_an_image_listed_twice_is_one_sentence(tmp_path):
    ham10000(tmp_path)
    path = tmp_path / "HAM10000_metadata.csv"
    path.write_text(path.read_text().replace("ISIC_0000002", "ISIC_0000001"))
    with pytest.raises(InvalidInputError, match=r"HAM10000_metadata.csv lists ISIC_0000001 twice"):
        read_ham10000(tmp_path)
