"""Options from a file."""

import json

import pytest

from equipoise.app.runs import RunOptions
from equipoise.app.runs.run_options import read_config
from equipoise.errors import InvalidInputError


def written(folder, text, name="options.toml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_toml_holds_options_by_name(tmp_path):
    path = written(tmp_path, 'data = "t.csv"\ntest-share = 0.3\nlearning_rate = 1\nfreeze = false\nout = "runs/x"\n')
    expected = {"data": "t.csv", "test_share": 0.3, "learning_rate": 1.0, "freeze": False, "out": "runs/x"}
    found = read_config(path)
    assert found == expected
    assert type(found["learning_rate"]) is float


def test_a_runs_own_record_is_such_a_file(tmp_path):
    options = RunOptions("t.csv", target="y", epochs=3)
    path = written(tmp_path, json.dumps({"options": options.as_dict(), "seconds": 3}), "run.json")
    assert RunOptions(**read_config(path)) == options
    assert read_config(written(tmp_path, '{"epochs": 4}', "some.json")) == {"epochs": 4}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epohcs = 3", r"options\.toml has an unknown option 'epohcs'; did you mean 'epochs'\?"),
        ("zzz = 3", r"has an unknown option 'zzz'; there are augment, backbone, "),
        ("epochs = 3.5", r"options\.toml: epochs must be a whole number, got 3\.5"),
        ("epochs = true", r"options\.toml: epochs must be a whole number, got True"),
        ('test-share = "0.2"', r"options\.toml: test-share must be a number, got '0\.2'"),
        ("test-share = true", r"test-share must be a number, got True"),
        ("freeze = 1", r"options\.toml: freeze must be true or false, got 1"),
        ("target = 3", r"options\.toml: target must be text, got 3"),
        (f"target{'.b' * 90} = 3", r"options\.toml: target must be text, got a table"),
        (
            f"target{'.b' * 800} = 3",
            r"is not valid TOML or JSON \(a line has more than 100 dots\); correct",
        ),
        (f"# {'a' * 2**16}", r"\(it has 65,538 characters, more than the limit of 65,536\); correct it"),
        (f"target = [0x{'1' * 5000}]", r"options\.toml: target must be text, got a list"),  # too long to print
        ("epochs = ", r"options\.toml is not valid TOML or JSON \(.*\); correct it"),
    ],
)
def test_what_is_wrong_in_it_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        read_config(written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file or directory\); check the path"):
        read_config(tmp_path / "gone.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match=r"cannot be read \(not UTF-8 text\); check the path"):
        read_config(tmp_path / "b.toml")
    with pytest.raises(InvalidInputError, match="must hold options by name; write an object"):
        read_config(written(tmp_path, "[1]", "list.json"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"test_share": 1.0}, "--test-share must lie between 0 and 1, got 1.0"),
        ({"test_share": 0.0}, "--test-share must lie between 0 and 1, got 0.0"),
        ({"epochs": 0}, "--epochs must be a whole number of at least 1, got 0"),
        ({"batch_size": 0}, "--batch-size must be a whole number of at least 1, got 0"),
        ({"size": 7}, "--size must be a whole number of at least 8, got 7"),
        ({"seed": -1}, "--seed must lie between 0 and 4294967295, got -1"),
        ({"seed": 2**32}, "--seed must lie between 0 and 4294967295, got 4294967296"),
    ],
)
def test_values_out_of_range_are_refused_wherever_they_come_from(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        RunOptions("t.csv", **options)


def test_the_ends_of_the_ranges_are_allowed():
    least = RunOptions("t.csv", epochs=1, batch_size=1, size=8, seed=2**32 - 1)
    assert (least.epochs, least.batch_size, least.size, least.seed) == (1, 1, 8, 2**32 - 1)
    assert RunOptions("t.csv", seed=0).seed == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"precision": "fp8"}, r"--mixed-precision must be one of no, fp16, bf16, got 'fp8'\."),
        ({"backbone": "vgg61"}, r"--backbone must be one of .*, got 'vgg61'; did you mean 'vgg16'\?"),
        ({"model": "forrest"}, r"--model must be one of .*, got 'forrest'; did you mean 'forest'\?"),
        ({"method": "magic"}, r"--method must be one of .*cross_entropy.*, got 'magic'\."),
        ({"test_labels": "t.csv"}, "--test-labels requires --test; give both"),
    ],
)
def test_options_that_cannot_be_are_told_at_once(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        RunOptions("x.csv", **options)
