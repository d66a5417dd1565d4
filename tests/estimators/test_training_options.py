"""Options that are declared once: what follows from a field."""

import dataclasses
import inspect
import re

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from equipoise import UncertaintyBalancedClassifier
from equipoise.app.runs import RunOptions
from equipoise.errors import InvalidInputError
from equipoise.estimators.training_options import TrainingOptions
from equipoise.main import app
from equipoise.options import Option, check_options, documented, option

NAMES = [each.name for each in dataclasses.fields(TrainingOptions)]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_is_an_argument_an_option_and_a_flag(name):
    default = inspect.signature(TrainingOptions).parameters[name].default
    assert UncertaintyBalancedClassifier().get_params()[name] == default
    assert RunOptions("t.csv").as_dict()[name] == default
    shown = CliRunner().invoke(app, ["train", "--help"]).output
    assert f"--{name.replace('_', '-')} " in shown


@pytest.mark.parametrize("options", [UncertaintyBalancedClassifier, RunOptions])
def test_every_argument_is_described_once(options):
    text = inspect.cleandoc(options.__doc__).split("Attributes:")[0]
    described = [name for names in re.findall(r"^    (\w+(?:, \w+)*):", text, re.M) for name in names.split(", ")]
    assert sorted(described) == sorted(inspect.signature(options).parameters)


def test_the_method_alone_needs_no_name():
    assert UncertaintyBalancedClassifier("focal").method == "focal"
    with pytest.raises(TypeError, match="positional argument"):
        UncertaintyBalancedClassifier("focal", 3)
    assert clone(UncertaintyBalancedClassifier("focal", epochs=3)).get_params()["epochs"] == 3


@pytest.mark.parametrize(
    ("rules", "allowed", "refused", "said"),
    [
        ({"least": 1, "whole": True}, [1, np.int64(7)], [0, 2.0, True, "3"], "be a whole number of at least 1"),
        (
            {"least": 0},
            [0, 0.5, np.float32(3)],
            [-1, float("nan"), float("inf"), "1", False],
            "be a finite number that is not negative",
        ),
        ({"least": 0, "below": 1}, [0, 0.99], [1, -0.1, None], r"lie in \[0, 1\)"),
        ({"above": 0, "below": 1}, [0.5], [0, 1], "lie between 0 and 1"),
        ({"least": 0, "most": 9, "whole": True}, [0, 9], [10, -1, 0.5], "lie between 0 and 9"),
        ({"choices": lambda: ["a", "b"]}, ["a", print], ["c", None], "be one of a, b"),
    ],
)
def test_a_value_is_held_to_its_rules(rules, allowed, refused, said):
    for value in allowed:
        Option(**rules).check("name", value)
    for value in refused:
        with pytest.raises(InvalidInputError, match=rf"^name must {said}, got .*\.$"):
            Option(**rules).check("name", value)


@documented
@dataclasses.dataclass
class Some:
    """Some.

    Args:
        plain: anything.
    """

    plain: int = 0
    chosen: int | None = option(None, "From the data by default.", detail="Or not.", least=1, whole=True)
    given: int = option(2, least=1, whole=True)


def test_none_is_left_to_the_data_where_it_is_the_default():
    check_options(Some())
    with pytest.raises(InvalidInputError, match="given must be a whole number of at least 1, got None"):
        check_options(Some(given=None))
    check_options(Some(given=None), "chosen")
    with pytest.raises(InvalidInputError, match="--chosen must be"):
        check_options(Some(chosen=0), called=lambda name: f"--{name}")


def test_help_goes_into_the_docstring():
    assert Some.__doc__ == "Some.\n\nArgs:\n    chosen: From the data by default. Or not.\n    plain: anything."


def test_a_subclass_is_loaded_as_itself(tmp_path):
    class Own(UncertaintyBalancedClassifier):
        pass

    x = np.random.default_rng(0).normal(size=(60, 3))
    Own(epochs=3, width=8, random_state=0).fit(x, x[:, 0] > 0).save(tmp_path)
    assert type(Own.load(tmp_path)) is Own
