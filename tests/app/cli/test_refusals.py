"""What can be refused from names, paths and a table's first line is refused before torch is imported."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

from equipoise.app.compare import METHODS
from equipoise.losses import LOSSES
from equipoise.models import BACKBONES
from equipoise.registry_names import _written_names, family_names, loss_names

HEAVY = ("torch", "sklearn", "scipy", "pandas", "matplotlib", "accelerate")
CODE = """
import json, sys
from equipoise.main import app
from equipoise.errors import EquipoiseError
found = []
for arguments in json.loads(sys.argv[1]):
    try:
        app(args=arguments, standalone_mode=False)
        said = None
    except EquipoiseError as error:
        said = str(error)
    found.append([said, [name for name in json.loads(sys.argv[2]) if name in sys.modules]])
print(json.dumps(found))
"""
REFUSED = [
    ("train nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("train t.csv --target diagnsis", "t.csv has no column 'diagnsis'; did you mean 'diagnosis'?"),
    ("train t.csv", "t.csv has no column named target, label, class or y"),
    (
        "train t.csv --target diagnosis --group ward",
        "group must be a column of the table other than the target, got 'ward'",
    ),
    (
        "train t.csv --target diagnosis --time wen",
        "--time names 'wen', which is not a column of the table; there are age, weight.",
    ),
    ("train t.csv --target diagnosis --test nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("train t.csv --target diagnosis --method magic", "--method must be one of"),
    ("train t.csv --target diagnosis --sample-level mix", "'mix'; did you mean 'mixing'?"),
    ("train t.csv --target diagnosis --mixed-precision fp8", "--mixed-precision must be"),
    ("train t.csv --target diagnosis --test-share 2", "--test-share must lie between 0 and 1"),
    ("train t.csv --target diagnosis --out busy", "busy exists and is not a run"),
    ("train t.csv --labels nothere.csv", "t.csv is a file, not a folder of images"),
    ("train photos --labels nothere.csv", "nothere.csv does not exist"),
    ("train photos --backbone alexnet", "--backbone must be one of"),
    ("train photos --weights nothere.pth", "no such file: 'nothere.pth'"),
    ("train --config nothere.toml", "the options in nothere.toml cannot be read"),
    ("train --resume --out nothere", "nothere is not a run"),
    ("evaluate nothere t.csv", "nothere is not a run"),
    ("evaluate run nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("evaluate run t.csv --target diagnsis", "t.csv has no column 'diagnsis'"),
    ("evaluate run other.csv", "other.csv has no column 'diagnosis'"),
    ("evaluate run t.csv --abstain 2", "--abstain must be above 0 and below 1"),
    ("predict nothere t.csv", "nothere is not a run"),
    ("predict run nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("predict run t.csv --out t.csv", "t.csv exists; pass --force"),
    ("predict run t.csv --out t.xlsx", "t.xlsx must end in"),
    ("predict run t.csv --format xml", "--format must be one of"),
    ("inspect nothere", "nothere is not a run"),
    ("inspect run --out t.csv", "t.csv exists; pass --force"),
    ("report nothere", "no such folder: 'nothere'"),
    ("report run --out t.csv", "t.csv exists; pass --force"),
    ("export nothere model.onnx", "nothere is not a run"),
    ("export run t.csv", "t.csv exists; pass --force"),
    ("export run nothere/model.onnx", "cannot be written; name a file in a folder that exists"),
    ("rebalance nothere.csv", "no such file: 'nothere.csv'; give a CSV or Parquet file of predictions"),
    ("rebalance t.csv --target diagnsis", "t.csv has no column 'diagnsis'"),
    ("rebalance t.csv --target diagnosis --out busy", "busy exists and is not empty"),
    ("rebalance --apply nothere.json t.csv", "no such file: 'nothere.json'; give a decision.json"),
    ("rebalance --apply t.csv nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("rebalance --apply t.csv other.csv --out t.csv", "t.csv exists; pass --force"),
    ("compare nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("compare t.csv --target diagnsis", "t.csv has no column 'diagnsis'"),
    ("compare t.csv --target diagnosis --methods magic", "methods must be some of"),
    ("compare t.csv --target diagnosis --budget 0", "--budget must be above 0 minutes, got 0."),
    ("reproduce mnst", "TABLE must be one of cifar10, "),
    ("reproduce mnst", "got 'mnst'; did you mean 'mnist'?"),
    ("data summary nothere.csv", "no such file or folder: 'nothere.csv'"),
    ("data summary t.csv --target diagnsis", "t.csv has no column 'diagnsis'"),
    ("verify nothere --pairs pairs.txt", "nothere is not a run"),
    ("verify run --pairs nothere.txt", "nothere.txt cannot be read: no such file"),
    ("verify run --pairs t.csv --images nothere", "no such folder or archive: 'nothere'"),
    ("faces align nothere faces", "'nothere' is not a folder or archive"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each command says in a process that has imported nothing yet, and what it had imported by then."""
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "t.csv").write_text("age,weight,diagnosis\n1,2,x\n2,3,y\n")
    (folder / "other.csv").write_text("age,weight\n1,2\n2,3\n")
    for name in ("photos", "busy", "run"):
        (folder / name).mkdir()
    (folder / "busy" / "letter.txt").write_text("dear")
    record = {"options": {"data": "t.csv", "target": "diagnosis"}, "input": {"kind": "table"}}
    (folder / "run" / "run.json").write_text(json.dumps(record))
    (folder / "run" / "model.json").write_text("{}")
    commands = [line.split() for line, _ in REFUSED]
    arguments = [sys.executable, "-c", CODE, json.dumps(commands), json.dumps(HEAVY)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder, check=True)
    return {line: answer for (line, _), answer in zip(REFUSED, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("line", "sentence"), REFUSED)
def test_a_refusal_waits_for_no_heavy_import(told, line, sentence):
    said, imported = told[line]
    assert said is not None
    assert sentence in said
    assert imported == []


@pytest.mark.parametrize(
    ("module", "family", "members"),
    [
        ("equipoise.losses.registry", "LOSSES", LOSSES),
        ("equipoise.models.backbones", "BACKBONES", BACKBONES),
    ],
)
def test_the_names_in_the_source_are_those_of_the_table(module, family, members):
    assert _written_names(module, family) == list(members)


def test_every_method_is_known_without_an_import():
    written = _written_names("equipoise.app.compare.methods", "METHODS")
    assert list(dict.fromkeys([*written, *LOSSES])) == list(METHODS)


def test_a_table_that_is_not_written_key_by_key_is_imported(monkeypatch):
    assert _written_names("equipoise.cores_and_memory", "COUNTERS") is None
    monkeypatch.delitem(sys.modules, "equipoise.cores_and_memory")
    assert (
        family_names("equipoise.cores_and_memory", "COUNTERS") == import_module("equipoise.cores_and_memory").COUNTERS
    )


def test_a_loss_that_a_program_has_added_is_known(monkeypatch):
    monkeypatch.setitem(LOSSES, "mine", LOSSES["focal"])
    assert "mine" in loss_names()
