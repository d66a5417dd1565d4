"""Processes that are killed or asked to stop resume to the bits of those that were left alone."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from tests.training.digits_run import without_seconds
from tests.training.groups import Groups
from tests.training.processes import ENVIRONMENT, ROOT

DIGITS = "tests.training.interrupted:train_digits"
SIZE = 50
"""Sizes of batches: the last ones of an epoch are incomplete, and three processes share each of them unevenly."""


@pytest.fixture(scope="module")
def groups():
    with Groups() as found:
        yield found


@pytest.fixture(scope="module")
def undisturbed(groups, tmp_path_factory):
    return {
        processes: groups.answers(
            processes, DIGITS, folder=str(tmp_path_factory.mktemp("undisturbed")), batch_size=SIZE
        )
        for processes in (2, 3)
    }


def same_end(found, expected) -> bool:
    ends = [(each["sha256"], without_seconds(each["history"])) for each in (*found, *expected)]
    return all(end == ends[0] for end in ends)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("asked", [{"1": 7}, {"0": 20, "1": 20}], ids=["one of them", "several"])
def test_asked_to_stop_all_save_the_same_step_and_resume_to_the_same_bits(
    groups, undisturbed, tmp_path, processes, asked
):
    options = {"folder": str(tmp_path), "batch_size": SIZE}
    stopped = groups.answers(processes, DIGITS, ends=asked, number=signal.SIGTERM, **options)
    assert {each["total"] for each in stopped} == {asked["1"]}
    assert all("again to resume" in each["stopped"] for each in stopped)
    assert same_end(groups.answers(processes, DIGITS, **options), undisturbed[processes])


@pytest.mark.slow
@pytest.mark.parametrize("killed", [{"1": 9}, {"0": 23}, {"0": 13, "1": 13, "2": 13}], ids=["other", "main", "all"])
def test_killed_they_resume_to_the_same_bits(groups, undisturbed, tmp_path, killed):
    options = {"folder": str(tmp_path), "batch_size": SIZE, "checkpoint_steps": 4}
    found = groups.run(3, DIGITS, ends=killed, **options)
    assert [each["code"] for each in found if str(found.index(each)) in killed] == [-signal.SIGKILL] * len(killed)
    for rank, each in enumerate(found):
        if str(rank) not in killed:
            assert f"process {rank} of 3 lost another one" in each["error"]
    assert same_end(groups.answers(3, DIGITS, **options), undisturbed[3])


@pytest.mark.slow
def test_another_number_of_processes_goes_on_from_the_same_place_and_says_so(groups, undisturbed, tmp_path):
    first = tmp_path / "2"
    groups.answers(2, DIGITS, ends={"0": 20}, number=signal.SIGTERM, folder=str(first), batch_size=SIZE)
    for processes in (3, 1):
        folder = tmp_path / f"on with {processes}"
        shutil.copytree(first, folder)
        found = groups.answers(processes, DIGITS, folder=str(folder), batch_size=SIZE)
        assert any(
            f"began with 2 processes and resumes with {processes}" in each and "bits differ" in each
            for each in found[0]["warnings"]
        )
        history, expected = found[0]["history"], undisturbed[2][0]["history"]
        assert without_seconds(history[:1]) == without_seconds(expected[:1]), "it did not begin anew"
        assert [each["steps"] for each in history] == [each["steps"] for each in expected]
        assert history[-1]["loss"] == pytest.approx(expected[-1]["loss"], rel=0.2)
        assert all(each["sha256"] == found[0]["sha256"] for each in found)


@pytest.mark.nightly
def test_a_process_killed_three_times_is_restarted_by_torchrun_to_the_same_bits(undisturbed, tmp_path):
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    plan = json.dumps([[1, 0, 6], [0, 1, 9], [1, 2, 11]])
    done = subprocess.run(
        [*launch, "--max-restarts", "3", "-m", "tests.training.interrupted", str(tmp_path), plan],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert found[0]["attempt"] == found[1]["attempt"] == "3"
    assert same_end(found, undisturbed[2])
