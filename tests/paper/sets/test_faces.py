"""VGGFace2, LFW and ORL: faces with their people, or their expressions."""

from collections import Counter

import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.sets import DATASETS, load_set
from equipoise.paper.sets.lfw import read_lfw_expressions, read_lfw_people
from equipoise.paper.sets.orl import read_orl
from equipoise.paper.sets.vggface2 import read_vggface2
from tests.paper.sets.layouts import PEOPLE, lfw, orl, vggface2, write_image


def test_vggface2_has_identities_and_parts(tmp_path):
    vggface2(tmp_path)
    samples = read_vggface2(tmp_path)
    assert samples.y.tolist() == ["n000002"] * 2 + ["n000010"] * 3 + ["n000001"]
    assert samples.partition.tolist() == ["train"] * 5 + ["test"]
    assert [path.parts[-3:-1] for path in samples.x.paths] == list(zip(samples.partition, samples.y, strict=True))
    assert samples.x.shape == (6, 3, 112, 112)
    assert samples.notes == ("1 of the 4 identities of identity_meta.csv have no folder.",)


def test_vggface2_needs_neither_the_list_nor_both_parts(tmp_path):
    vggface2(tmp_path)
    (tmp_path / "identity_meta.csv").unlink()
    (tmp_path / "train").rename(tmp_path / "elsewhere")
    (tmp_path / "test" / "notes").mkdir()
    samples = read_vggface2(tmp_path)
    assert samples.y.tolist() == ["n000001"]
    assert samples.notes == ()
    (tmp_path / "test" / "n000001" / "0001_01.jpg").unlink()
    with pytest.raises(InvalidInputError, match="has the folders of the set, but no image is in them"):
        read_vggface2(tmp_path)


@pytest.mark.parametrize(("gone", "left"), [("test", "train"), ("train", "test")])
def test_vggface2_with_one_part_says_what_is_not_there(tmp_path, gone, left):
    vggface2(tmp_path)
    (tmp_path / gone).rename(tmp_path / "elsewhere")
    samples = load_set("vggface2", tmp_path)
    assert set(samples.partition) == {left}
    official = DATASETS["vggface2"].images
    assert f"VGGFace2 has {official[gone]:,} {gone} images, found 0." in samples.notes
    assert f"VGGFace2 has {official[left]:,} {left} images, found {len(samples)}." in samples.notes


@pytest.mark.parametrize("inner", ["", "lfw", "lfw_funneled", "lfw-deepfunneled"])
def test_people_of_lfw_in_their_folders(tmp_path, inner):
    lfw(tmp_path / "made")
    (tmp_path / "data" / inner).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "made" / "lfw").rename(tmp_path / "data" / inner)
    samples = read_lfw_people(tmp_path / "data")
    assert Counter(samples.y.tolist()) == PEOPLE
    assert all(path.parent.name == person for path, person in zip(samples.x.paths, samples.y, strict=True))
    assert samples.x.shape == (6, 3, 25, 25)


def test_people_of_lfw_in_one_folder_without_the_others(tmp_path):
    for name in ("Jo_Ann_Doe_0001", "Jo_Ann_Doe_0002", "Dwarakish_185", "facial-expressions_2868588k"):
        write_image(tmp_path / "img" / f"{name}.jpg", grey=True)
    samples = read_lfw_people(tmp_path)
    assert samples.y.tolist() == ["Jo_Ann_Doe"] * 2
    assert samples.x.shape == (2, 1, 8, 6)
    assert samples.notes == ("2 images are not named as in LFW, Person_0001.jpg, and were left out.",)
    for path in tmp_path.rglob("*_000*.jpg"):
        path.unlink()
    with pytest.raises(InvalidInputError, match=r"no image in .* is named as in LFW, Person_0001.jpg"):
        read_lfw_people(tmp_path)


def test_expressions_of_lfw_with_the_person_as_group(tmp_path):
    lfw(tmp_path)
    samples = read_lfw_expressions(tmp_path)
    assert samples.y.tolist() == ["anger", "happiness", "happiness", "neutral", "sadness", *["neutral"] * 3]
    assert samples.groups.tolist() == ["Aaron_Eckhart"] + ["Aaron_Peirsol"] * 2 + ["Zoe_Ball"] * 5
    assert [path.stem[-1] for path in samples.x.paths] == list("11211222")
    assert samples.notes == (
        "1 images of legend.csv are not there and were left out.",
        "3 rows of legend.csv list an image again, 1 of them with another expression; all were kept.",
    )


def test_expressions_that_are_none_are_one_sentence(tmp_path):
    lfw(tmp_path)
    legend = tmp_path / "legend.csv"
    legend.write_text(legend.read_text().replace("anger", "angry"))
    with pytest.raises(InvalidInputError, match=r"has the expression 'angry'; it must list images with one of anger"):
        read_lfw_expressions(tmp_path)
    legend.write_text("user.id,image,emotion\n1,Nobody_0001.jpg,fear\n")
    with pytest.raises(InvalidInputError, match=r"has none of the images that are there"):
        read_lfw_expressions(tmp_path)
    legend.unlink()
    with pytest.raises(InvalidInputError, match=r"legend.csv is not in .*; it lists user.id,image,emotion"):
        read_lfw_expressions(tmp_path)


def test_persons_of_other_images_are_read_from_their_names(tmp_path):
    for name in ("Dwarakish_185", "facial-expressions_28k", "single"):
        write_image(tmp_path / "img" / f"{name}.jpg")
    rows = "".join(f"1,{name}.jpg,fear\n" for name in ("Dwarakish_185", "facial-expressions_28k", "single"))
    (tmp_path / "legend.csv").write_text("user.id,image,emotion\n" + rows)
    assert read_lfw_expressions(tmp_path).groups.tolist() == ["Dwarakish", "facial-expressions", "single"]


@pytest.mark.parametrize("inner", ["", "att_faces", "orl_faces"])
def test_people_of_orl_in_the_order_of_their_numbers(tmp_path, inner):
    orl(tmp_path / inner)
    samples = read_orl(tmp_path)
    assert samples.y.tolist() == ["s1"] * 3 + ["s2"] * 3 + ["s10"] * 3
    assert [path.name for path in samples.x.paths[:3]] == ["1.pgm", "2.pgm", "10.pgm"]
    assert samples.x.shape == (9, 1, 112, 92)
    assert samples.partition is None


def test_orl_divided_by_person_is_put_together(tmp_path):
    orl(tmp_path / "data" / "faces" / "training")
    (tmp_path / "data" / "faces" / "testing").mkdir()
    (tmp_path / "data" / "faces" / "training" / "s2").rename(tmp_path / "data" / "faces" / "testing" / "s2")
    assert read_orl(tmp_path).y.tolist() == ["s1"] * 3 + ["s2"] * 3 + ["s10"] * 3
    for path in tmp_path.rglob("*.pgm"):
        path.unlink()
    with pytest.raises(InvalidInputError, match="has the folders of the set, but no image is in them"):
        read_orl(tmp_path)
