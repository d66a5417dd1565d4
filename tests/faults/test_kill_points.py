"""A few of the kills of benchmarks/kill_points.py, which does fifty of each."""

import json
import subprocess
import sys

import pytest

from tests.training.processes import ENVIRONMENT, ROOT

KILLS = 1


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another process's time is read as Linux has it")
def test_killed_at_random_moments_everything_ends_as_if_it_had_not_been(tmp_path):
    out = tmp_path / "found.json"
    command = [sys.executable, ROOT / "benchmarks/kill_points.py", "--kills", str(KILLS), "--seed", "1", "--out", out]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    found = json.loads(out.read_text())["subjects"]
    assert set(found) == {"train", "reproduce", "features", "predict"}
    for subject in found.values():
        assert [kill["problems"] for kill in subject["kills"]] == [[]] * KILLS
