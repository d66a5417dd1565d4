"""A run of several processes: one of them writes and speaks, and none finds the folder taken by another."""

import json
import subprocess
import sys

import pytest

from equipoise.app.run_folder import is_main
from equipoise.app.runs.train import wait_for_all
from tests.app.runs import made
from tests.training.processes import ENVIRONMENT


@pytest.mark.parametrize(
    ("variables", "main"),
    [
        ({}, True),
        ({"RANK": "1"}, True),  # another program's
        ({"RANK": "1", "WORLD_SIZE": "2"}, True),
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}, True),
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, False),
        ({"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}, False),  # the first of a second machine
    ],
)
def test_one_process_speaks(monkeypatch, variables, main):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_main() is main
    if not {"LOCAL_RANK", "WORLD_SIZE"} <= set(variables) or variables["WORLD_SIZE"] == "1":
        wait_for_all()  # for nobody


@pytest.mark.slow
def test_two_processes_of_the_command_write_one_run_and_print_it_once(tmp_path):
    made.digits_frame().to_csv(tmp_path / "rows.csv", index=False)
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    command = ("-m", "equipoise", "train", "rows.csv", "--target", "digit", "--epochs", "3", "--json")
    done = subprocess.run(
        [*launch, *command], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # one object, not two
    assert found["run"] == "runs/rows"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["rows"]
    assert (tmp_path / found["report"]).is_file()
    assert done.stderr.count("The run is in runs/rows.") == 1
    assert json.loads((tmp_path / "runs" / "rows" / "run.json").read_text())["training"]["processes"] == 2
