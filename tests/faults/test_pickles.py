"""No path unpickles: none in the code, and none where a run's folder holds pickles in the place of its files."""

import ast
import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import equipoise as package
from equipoise.app.runs import RunOptions, train_run
from tests.marks import mostly_slow

SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))
READERS = {"pickle": {"load", "loads", "Unpickler"}, "marshal": {"load", "loads"}, "shelve": {"open"}}
READERS |= {"joblib": {"load"}, "dill": {"load", "loads"}, "cloudpickle": {"load", "loads"}, "yaml": {"load"}}
READERS |= {"pd": {"read_pickle", "read_hdf"}, "pandas": {"read_pickle", "read_hdf"}}
RUNNERS = {"eval", "exec", "compile", "__import__"}
ALLOWED = {("importlib", "import_module")}
"""None of these is called with what a file says; see the tests of each reader."""


def called(node: ast.Call) -> tuple[str, str]:
    """The module and the name of what is called, as they stand there."""
    if isinstance(node.func, ast.Attribute):
        value = node.func.value
        return (value.id if isinstance(value, ast.Name) else "an object"), node.func.attr
    return "", node.func.id if isinstance(node.func, ast.Name) else ""


def option(node: ast.Call, name: str) -> object:
    """The value of a keyword; None where it is not there or no constant."""
    found = [keyword.value for keyword in node.keywords if keyword.arg == name]
    return found[0].value if found and isinstance(found[0], ast.Constant) else None


def dangers(source: str) -> list[str]:
    """Calls in a module that could run what a file holds."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and {one.name for one in node.names} & READERS.get(
            node.module or "", set()
        ):
            found.append(f"line {node.lineno}: from {node.module}")
        if not isinstance(node, ast.Call):
            continue
        module, name = called(node)
        unsafe = name in READERS.get(module, set()) or (module == "" and name in RUNNERS)
        unsafe |= (module, name) == ("torch", "load") and option(node, "weights_only") is not True
        unsafe |= module in ("np", "numpy") and name == "load" and option(node, "allow_pickle") is not False
        unsafe |= option(node, "allow_pickle") is True or option(node, "shell") is True
        unsafe |= (module, name) in {("os", "system"), ("os", "popen")}
        if unsafe:
            found.append(f"line {node.lineno}: {module}.{name}")
    return found


def test_no_module_calls_what_could_run_a_file():
    assert len(SOURCES) > 150
    found = {path.name: dangers(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.load(file)",
        "from pickle import loads",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=flag)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "pd.read_pickle(path)",
        "joblib.load(path)",
        "eval(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_such_calls_would_be_found(source):
    assert dangers(source)


def test_what_is_safe_is_not_taken_for_one():
    assert (
        dangers("torch.load(p, weights_only=True)\nnp.load(p, allow_pickle=False)\njson.load(f)\nre.compile(x)") == []
    )


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return type(self.trace).touch, (self.trace,)


def pickled(path, trace):
    path.write_bytes(pickle.dumps(Trap(trace)))


def torch_saved(path, trace):
    torch.save({"weight": Trap(trace)}, path)


def in_an_array(path, trace):
    with path.open("wb") as file:
        np.savez(file, uncertainty=np.array([Trap(trace)], dtype=object))


@pytest.mark.parametrize("write", mostly_slow([pickled, torch_saved, in_an_array]))
def test_pickles_in_the_place_of_each_file_run_nothing(equipoise, table_run, tmp_path, write):
    trace, digits = tmp_path / "ran", table_run.parent / "digits.csv"
    names = [path.name for path in table_run.iterdir() if path.is_file() and path.name != "report.html"]
    assert {"run.json", "model.json", "model.safetensors", "held_out.npz", "metrics.jsonl"} <= set(names)
    for name in names:
        folder = tmp_path / "run"
        shutil.copytree(table_run, folder, ignore=shutil.ignore_patterns("checkpoints", "report.html"))
        write(folder / name, trace)
        done = equipoise("predict", folder, digits, "--out", tmp_path / "answers.csv", "--force", "--quiet")
        assert (done.code == 0) is (name not in ("run.json", "model.json", "model.safetensors", "held_out.npz")), name
        assert done.err.count("\n") == done.code, done.err
        if name in ("run.json", "scores.json", "before_scores.json", "gallery.json", "held_out.npz", "metrics.jsonl"):
            done = equipoise("report", folder, "--out", tmp_path / "page.html", "--quiet")
            assert (done.code, done.err.count("\n")) == (1, 1), (name, done.err)
        assert not trace.exists(), name
        shutil.rmtree(folder)


@pytest.mark.slow
def test_pickled_checkpoints_run_nothing_when_a_run_is_resumed(table_run, tmp_path):
    folder, trace = tmp_path / "run", tmp_path / "ran"
    shutil.copytree(table_run, folder)
    (folder / "model.json").unlink()  # not finished, so that it is gone on with
    options = json.loads((folder / "run.json").read_text())["options"]
    for path in (folder / "checkpoints").iterdir():
        pickled(path, trace)
    train_run(RunOptions(**options), folder, resume=True)
    notes = json.loads((folder / "run.json").read_text())["notes"]
    assert any(re.search(r"step-\d+\.safetensors is damaged", note) for note in notes)
    assert (folder / "model.safetensors").read_bytes() == (table_run / "model.safetensors").read_bytes()
    assert not trace.exists()
