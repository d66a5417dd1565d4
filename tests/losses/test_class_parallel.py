"""A head sharded over processes has the loss, gradients, uncertainty and margins of the whole one."""

import pytest

from tests.training.groups import Groups

pytestmark = pytest.mark.slow  # groups of processes

EXPECTED = {"sample_level": "expected", "dropout": 0.5}


@pytest.fixture(scope="module")
def groups():
    with Groups() as found:
        yield found


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cross_entropy", {}),
        ("weighted", {}),
        ("am_softmax", {}),
        ("arcface", {}),
        ("ldam_drw", {}),
        ("uncertainty_margin", {}),
        ("uncertainty_margin", {"form": "angular", "placement": "target", "normalize": False}),
        ("uncertainty_margin", EXPECTED),
        ("uncertainty_margin", {"sample_level": "complement", "dropout": 0.5}),
        ("uncertainty_margin", {"sample_level": "printed", "dropout": 0.5}),
    ],
)
def test_shards_together_are_the_whole_head(groups, processes, name, options):
    found = groups.answers(
        processes, "tests.losses.sharded_head:compare", name=name, options=options, weighted=processes == 3
    )
    assert sum(each["classes"] for each in found) == 11
    for each in found:
        assert each["slope"] > 1e-4
        for figure in ("loss", "vectors", "features", "uncertainty", "margins"):
            assert each[figure] < 1e-9, figure
        assert each["predicted"]


def test_what_cannot_be_sharded_is_refused(groups):
    for told in groups.answers(2, "tests.losses.sharded_head:refused"):
        assert "takes the plain softmax loss, a CosineMarginLoss or an UncertaintyMarginLoss" in told[0]
        assert told[1] == "this process has 5 of 10 classes, and the shard was built for 3."
        assert told[2] == "target must hold 2 labels from 0 to 9."
