"""What every data set keeps: images, labels, official numbers in notes, and one way to be found."""

from dataclasses import replace

import numpy as np
import pytest

from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets import DATASETS, DataSet, find_set, load_set, locate_set
from tests.paper.sets.layouts import LAYOUTS, mnist, orl

NAMES = sorted(DATASETS)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)


def test_every_set_has_a_layout_and_the_public_ones_are_known():
    assert LAYOUTS.keys() == DATASETS.keys()
    public = {name for name in DATASETS if DATASETS[name].published}
    assert public == {"mnist", "fashion_mnist", "cifar10", "cifar100"}


@pytest.mark.parametrize("name", NAMES)
def test_a_set_gives_images_with_labels(name, tmp_path):
    LAYOUTS[name](tmp_path)
    samples = load_set(name, tmp_path)
    assert isinstance(samples, Samples)
    assert samples.x.dtype == np.uint8
    assert samples.x.ndim == 4
    assert samples.x.shape[1] in (1, 3)
    pixels = samples.x[[0, len(samples) - 1]]
    assert pixels.shape == (2, *samples.x.shape[1:])
    assert pixels.std() > 20
    part = samples.take([len(samples) - 1, 0])
    assert np.array_equal(part.x[[0, 1]], pixels[::-1])
    if samples.partition is not None:
        assert set(samples.partition) == set(DATASETS[name].images)
        assert sum(len(samples.part(one)) for one in DATASETS[name].images) == len(samples)
    else:
        assert set(DATASETS[name].images) == {"all"}


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_not_the_official_ones_are_noted(name, tmp_path):
    LAYOUTS[name](tmp_path)
    samples = load_set(name, tmp_path)
    known = DATASETS[name]
    for part, official in known.images.items():
        found = len(samples) if part == "all" else len(samples.part(part))
        wanted = f"{known.title} has {official:,} {'' if part == 'all' else part + ' '}images, found {found:,}."
        assert wanted in samples.notes


def test_official_numbers_need_no_note(tmp_path, monkeypatch):
    orl(tmp_path)
    exact = DataSet("Small", DATASETS["orl"].read, ("small",), {"all": 9}, 3, ())
    monkeypatch.setitem(DATASETS, "small", exact)
    assert load_set("small", tmp_path).notes == ()
    monkeypatch.setitem(DATASETS, "small", replace(exact, classes=4))
    assert load_set("small", tmp_path).notes == ("Small has 4 classes, found 3.",)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_found_below_the_data_folder_or_as_it(name, tmp_path, monkeypatch):
    for called in DATASETS[name].folders:
        root = tmp_path / f"below-{called}"
        LAYOUTS[name](root / called)
        assert locate_set(name, root) == root / called
    itself = tmp_path / "downloads"
    LAYOUTS[name](itself)
    own = itself / "lfw" if name == "lfw_people" else itself
    assert locate_set(name.upper().replace("_", "-"), itself) == own
    monkeypatch.setenv("EQUIPOISE_DATA", str(itself))
    assert len(find_set(name)) > 0
    assert locate_set(name, root) == root / called  # what is given goes first
    assert locate_set(name, root / called) in (root / called, root / called / "lfw")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "fashion_mnist"])
def test_a_set_that_is_nowhere_is_one_sentence(name, tmp_path, monkeypatch):
    with pytest.raises(InvalidInputError, match=r"was not found \(\$EQUIPOISE_DATA is not set\);"):
        find_set(name)
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path))
    with pytest.raises(InvalidInputError) as caught:
        find_set(name)
    message = str(caught.value)
    assert all(str(tmp_path / called) in message for called in DATASETS[name].folders)
    assert message.endswith(f"set EQUIPOISE_DATA to the folder that holds {DATASETS[name].folders[0]}.")
    assert "--data" not in message, "most commands have no such option"
    assert (f"run `equipoise data fetch {name}`" in message) == (DATASETS[name].published is not None)


def test_fashion_mnist_is_found_where_debian_puts_it(tmp_path, monkeypatch):
    assert [str(place) for place in DATASETS["fashion_mnist"].elsewhere] == ["/usr/share/datasets/fashion-mnist"]
    elsewhere = tmp_path / "usr"
    monkeypatch.setitem(DATASETS, "fashion_mnist", replace(DATASETS["fashion_mnist"], elsewhere=(elsewhere,)))
    with pytest.raises(
        InvalidInputError, match=rf"Fashion-MNIST was not found \({elsewhere}\); run `equipoise data fetch"
    ):
        locate_set("fashion_mnist")
    mnist(elsewhere)
    assert locate_set("fashion_mnist") == elsewhere
    assert set(find_set("fashion_mnist").y) >= {"T-shirt/top", "Ankle boot"}


def test_mnist_is_not_taken_for_fashion_mnist(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "fashion_mnist", replace(DATASETS["fashion_mnist"], elsewhere=()))
    mnist(tmp_path / "mnist")
    with pytest.raises(InvalidInputError, match="Fashion-MNIST was not found"):
        locate_set("fashion_mnist", tmp_path / "mnist")
    assert locate_set("mnist", tmp_path / "mnist") == tmp_path / "mnist"
    mnist(tmp_path / "torch" / "MNIST" / "raw")
    with pytest.raises(InvalidInputError, match="Fashion-MNIST was not found"):
        locate_set("fashion_mnist", tmp_path / "torch")
    assert len(find_set("mnist", tmp_path / "torch")) == 30
    mnist(tmp_path / "torch" / "FashionMNIST" / "raw")
    assert len(find_set("fashion_mnist", tmp_path / "torch")) == 30


def test_a_folder_called_as_the_set_is_taken_at_its_word(tmp_path):
    folder = tmp_path / "ham10000"
    LAYOUTS["ham10000"](folder)
    (folder / "HAM10000_metadata.csv").rename(folder / "metadata.csv")
    for number in (1, 2):
        (folder / f"HAM10000_images_part_{number}").rename(folder / ("images" if number == 1 else "img"))
    assert len(find_set("ham10000", folder)) == 8


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(InvalidInputError, match=r"unknown data set 'minst'; did you mean mnist\?"):
        find_set("minst")
    with pytest.raises(InvalidInputError, match=r"unknown data set 'zzz'; the data sets are mnist, fashion_mnist,"):
        load_set("zzz", None)


@pytest.mark.parametrize("name", NAMES)
def test_image_files_come_at_the_size_asked_for_and_arrays_do_not(name, tmp_path):
    LAYOUTS[name](tmp_path)
    if name in ("mnist", "fashion_mnist", "cifar10", "cifar100"):
        with pytest.raises(InvalidInputError, match=r"has images of (28×28|32×32); leave size out"):
            load_set(name, tmp_path, size=(16, 24))
    else:
        assert load_set(name, tmp_path, size=(16, 24)).x[[0]].shape[2:] == (16, 24)


@pytest.mark.parametrize("name", ["ham10000", "orl", "celeba", "vggface2", "dermofit", "lfw_people"])
def test_more_than_a_tenth_of_broken_files_is_an_error(name, tmp_path):
    LAYOUTS[name](tmp_path)
    paths = load_set(name, tmp_path).x.paths
    for victim in paths[: len(paths) // 10 + 1]:
        victim.write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"\d of \d+ image files cannot be read.*\(the file is empty\)"):
        load_set(name, tmp_path)


def test_a_check_decodes_every_file(tmp_path, monkeypatch):
    orl(tmp_path)
    bad = tmp_path / "s2" / "2.pgm"
    bad.write_bytes(bad.read_bytes()[:50])
    assert len(load_set("orl", tmp_path)) == 9
    with pytest.raises(InvalidInputError, match=r"1 of 9 image files cannot be read.*s2/2.pgm"):
        load_set("orl", tmp_path, check=True)
    monkeypatch.setattr("equipoise.data.images.check.TOLERATED", 0.5)
    told = []
    samples = load_set("orl", tmp_path, check=True, progress=lambda *done: told.append(done))
    assert len(samples) == 8
    assert samples.y.tolist() == ["s1"] * 3 + ["s2"] * 2 + ["s10"] * 3
    assert any("1 of 9 image files cannot be read" in note for note in samples.notes)


def test_a_broken_first_file_is_named(tmp_path):
    orl(tmp_path)
    (tmp_path / "s1" / "1.pgm").write_bytes(b"not an image")
    with pytest.raises(InvalidInputError, match=r"s1/1\.pgm cannot be read \(.+\); fetch the data again, or read with"):
        load_set("orl", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_or_missing_folder_is_one_sentence(name, tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidInputError, match=r"is not in|must hold|is not a folder") as caught:
            load_set(name, folder)
        assert str(folder) in str(caught.value)
