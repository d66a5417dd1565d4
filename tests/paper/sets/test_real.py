"""The real data, where they are: every count as documented."""

import hashlib
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from equipoise.data.splits import stratified_folds
from equipoise.paper.sets import DATASETS, find_set
from equipoise.paper.sets.mnist import DEBIAN_FASHION

DATA = os.environ.get("EQUIPOISE_DATA")


def needs(folder):
    there = DATA is not None and (Path(DATA) / folder).is_dir()
    return pytest.mark.skipif(not there, reason=f"EQUIPOISE_DATA has no {folder}")


@needs("mnist")
def test_mnist():
    samples = find_set("mnist", Path(DATA))
    assert samples.notes == ()
    train, test = samples.part("train"), samples.part("test")
    assert (len(train), len(test)) == (60_000, 10_000)
    assert np.bincount(train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert abs(train.x.mean() - 33.318) < 1e-3
    header = bytes.fromhex("00000803 00002710 0000001c 0000001c")
    assert (
        hashlib.md5(header + test.x.tobytes(), usedforsecurity=False).hexdigest() == "2646ac647ad5339dbf082846283269ea"
    )


@pytest.mark.skipif(not DEBIAN_FASHION.is_dir(), reason="the Debian package dataset-fashion-mnist is not installed")
def test_fashion_mnist():
    samples = find_set("fashion_mnist")
    assert samples.notes == ()
    for part, count in (("train", 6_000), ("test", 1_000)):
        assert set(Counter(samples.part(part).y.tolist()).values()) == {count}


@pytest.mark.nightly
@needs("cifar10")
def test_cifar10_as_jpeg():
    samples = find_set("cifar10", Path(DATA))
    for part, count in (("train", 5_000), ("test", 1_000)):
        assert Counter(samples.part(part).y.tolist()) == dict.fromkeys(sorted(set(samples.y.tolist())), count)
    assert len(set(samples.y.tolist())) == 10
    assert len(samples.notes) == 1
    assert "JPEG" in samples.notes[0]
    assert samples.x[[0, 30_000, 59_999]].shape == (3, 3, 32, 32)


@pytest.mark.slow
@needs("ham10000")
def test_ham10000_and_its_three_folds():
    samples = find_set("ham10000", Path(DATA))
    counts = {"nv": 4744, "bkl": 783, "mel": 707, "bcc": 367, "akiec": 239, "vasc": 101, "df": 76}
    assert Counter(samples.y.tolist()) == counts
    assert len(set(samples.groups.tolist())) == 5_879
    assert samples.x.shape == (7_017, 3, 96, 128)
    assert samples.notes == ("HAM10000 has 10,015 images, found 7,017.",)
    for train, test in stratified_folds(samples.y, 3, groups=samples.groups, seed=0):
        assert not set(samples.groups[train]) & set(samples.groups[test])
        assert abs(len(test) - 7_017 / 3) < 20
        for name, count in counts.items():
            assert abs(np.sum(samples.y[test] == name) - count / 3) <= max(4, 0.03 * count)


@pytest.mark.nightly
@needs("lfw")
def test_lfw_people_and_expressions():
    people = find_set("lfw_people", Path(DATA))
    assert len(people) == 12_794
    counts = Counter(people.y.tolist())
    assert len(counts) == 5_616
    assert sum(count >= 2 for count in counts.values()) == 1_622
    assert sum(count >= 10 for count in counts.values()) == 151
    assert counts.most_common(1) == [("George_W_Bush", 520)]
    assert people.x.shape[1:] == (1, 96, 96)
    expressions = find_set("lfw_expressions", Path(DATA))
    assert Counter(expressions.y.tolist()) == {
        "neutral": 6868,
        "happiness": 5696,
        "surprise": 368,
        "sadness": 268,
        "anger": 252,
        "disgust": 208,
        "fear": 21,
        "contempt": 9,
    }
    assert len(expressions) == DATASETS["lfw_expressions"].images["all"] == 13_690


@needs("orl")
def test_orl():
    samples = find_set("orl", Path(DATA))
    assert Counter(samples.y.tolist()) == {f"s{number}": 10 for number in range(1, 41)}
    assert samples.x.shape == (400, 1, 112, 92)
    assert samples.notes == ()
    assert 50 < samples.x[:].mean() < 180
