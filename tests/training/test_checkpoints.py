"""Checkpoints are whole or not there, hold no code, and an optimiser comes back as it was."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from equipoise.storage.files import DiskFullError, write_atomically
from equipoise.training.checkpoints import (
    Checkpoints,
    of_prefix,
    pack_optimizer,
    random_states,
    restore_random_states,
    unpack_optimizer,
    with_prefix,
)
from equipoise.training.resumable_run import append_metrics, write_metrics
from equipoise.training.watchers import Silence
from tests.training.digits_run import run, without_seconds
from tests.training.processes import ENVIRONMENT, ROOT

VERSION = 75_000
"""Words of four bytes in one version of the file that is written over and over."""

WRITER = f"""
import itertools, os, sys
from pathlib import Path
from equipoise.storage.files import write_atomically
for _ in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("ended", flush=True)
        continue
    print(os.getpid(), flush=True)
    for version in itertools.count():
        write_atomically(Path(sys.argv[1]), version.to_bytes(4, "little") * {VERSION})
        os.write(1, b"%d\\n" % version)  # at once, or a kill may fall before the end of the line
"""
"""A process for each line it is sent, which writes version after version until it is killed."""


class Danger:
    """Leaves a file behind when a pickle of it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def tensors(value: float = 1.0) -> dict[str, torch.Tensor]:
    return {"weight": torch.full((3, 4), value), "step": torch.tensor(value)}


def test_a_writer_that_is_killed_leaves_a_whole_version(tmp_path):
    draw, path = random.Random(0), tmp_path / "file"
    launcher = subprocess.Popen(
        [sys.executable, "-c", WRITER, path],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    for _ in range(20):
        launcher.stdin.write("again\n")
        launcher.stdin.flush()
        writer = int(launcher.stdout.readline())
        for version in range(draw.randint(1, 6)):  # a reader at any moment sees a whole version as well
            assert launcher.stdout.readline() == f"{version}\n"
            assert whole_version(path.read_bytes()) >= version
        time.sleep(draw.uniform(0, 0.002))  # so that the kill may fall anywhere in the writing
        os.kill(writer, signal.SIGKILL)
        while (line := launcher.stdout.readline()) != "ended\n":
            version = int(line)
        assert whole_version(path.read_bytes()) in (version, version + 1)  # it may die between renaming and reporting
    launcher.communicate()


def whole_version(content: bytes) -> int:
    assert len(content) == 4 * VERSION
    words = np.frombuffer(content, dtype="<u4")
    assert (words == words[0]).all()
    return int(words[0])


def test_an_error_while_writing_leaves_the_old_version_and_no_part(tmp_path):
    path = tmp_path / "folder"
    (path / "inside").mkdir(parents=True)  # a folder under the name: the rename fails
    with pytest.raises(OSError, match="folder"):
        write_atomically(path, b"new")
    assert sorted(child.name for child in tmp_path.iterdir()) == ["folder"]


def test_parts_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / ".step-000000007.safetensors.123-0badcafe.part").write_bytes(b"half")
    assert Checkpoints(tmp_path).newest() is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_saved_is_what_is_found(tmp_path):
    checkpoints = Checkpoints(tmp_path / "new" / "folder")
    saved = tensors(0.1) | {"half": torch.ones(2, dtype=torch.bfloat16), "turned": torch.arange(6).view(2, 3).T}
    state = {"loss": 0.1 + 0.2, "worst": float("-inf"), "names": ["a", "é"], "nothing": None}
    checkpoints.save(3, saved, state)
    found, found_state = checkpoints.newest()
    assert found_state == state
    assert found.keys() == saved.keys()
    for name, tensor in saved.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)


def test_the_newest_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (8, 9, 10, 100):
        checkpoints.save(step, tensors(step), {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000000010.safetensors",
        "step-000000100.safetensors",
    ]
    assert checkpoints.newest()[1] == {"step": 100}


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        lambda content: content[:-1],
        lambda content: content[:5],
        lambda _: b"",
        lambda _: random.Random(0).randbytes(4_000),
        lambda content: b"\xff" * 8 + content[8:],
        lambda content: content.replace(b"__metadata__", b"__metadatA__"),
        lambda content: content.replace(b'"state":"{', b'"state":"['),
    ],
    ids=["half", "one byte less", "five bytes", "empty", "garbage", "huge header", "no metadata", "no JSON"],
)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, tensors(1), {"step": 1})
    newest = checkpoints.save(2, tensors(2), {"step": 2})
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(UserWarning, match=r"step-000000002\.safetensors is damaged .*the checkpoint before it is used"):
        found, state = checkpoints.newest()
    assert state == {"step": 1}
    assert found["step"] == 1


def test_with_nothing_but_damaged_checkpoints_there_is_none(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, tensors(), {}).write_bytes(b"garbage")
    with pytest.warns(UserWarning, match="is damaged"):
        assert checkpoints.newest() is None


@pytest.mark.parametrize("write", [pickle.dump, torch.save], ids=["pickle", "torch"])
def test_a_pickle_is_refused_and_never_run(tmp_path, write):
    checkpoints, trace = Checkpoints(tmp_path / "checkpoints"), tmp_path / "trace"
    with checkpoints.save(1, tensors(), {}).open("wb") as file:
        write(Danger(trace), file)
    with pytest.warns(UserWarning, match="is damaged"):
        assert checkpoints.newest() is None
    assert not trace.exists()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root on Linux")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mount refused: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_one_sentence_and_the_last_good_checkpoint_stays(small_disk):
    checkpoints = Checkpoints(small_disk)
    checkpoints.save(1, {"small": torch.ones(10)}, {"step": 1})
    with pytest.raises(
        DiskFullError, match=r"^no space left for .*step-000000002.*\(400,\d+ bytes\); what .*resume\.$"
    ):
        checkpoints.save(2, {"large": torch.ones(100_000)}, {"step": 2})
    assert [path.name for path in small_disk.iterdir()] == ["step-000000001.safetensors"]
    found, state = checkpoints.newest()
    assert state == {"step": 1}
    assert found["small"].sum() == 10


def test_a_full_disk_is_one_sentence_for_metrics_too(small_disk):
    path = small_disk / "metrics.jsonl"
    write_metrics(path, [])
    append_metrics(path, {"epoch": 0})
    (small_disk / "ballast").write_bytes(bytes(150_000))
    with pytest.raises(DiskFullError, match=r"^no space left for .*metrics\.jsonl .*free some space and resume\.$"):
        append_metrics(path, {"epoch": 1, "much": "x" * 200_000})
    (small_disk / "ballast").unlink()
    write_metrics(path, [{"epoch": 0}])
    assert json.loads(path.read_text()) == {"epoch": 0}


class Filler(Silence):
    """Fills the disk up after some steps."""

    def __init__(self, ballast, steps):
        self.ballast, self.left = ballast, steps

    def step(self, epoch, stage, steps):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            with pytest.raises(OSError, match="No space left"):
                self.ballast.write_bytes(bytes(1_000_000))


def test_a_run_that_filled_the_disk_resumes_once_there_is_room(small_disk):
    ballast, folder = small_disk / "ballast", small_disk / "run"
    with pytest.raises(DiskFullError, match="no space left"):
        run(folder, epochs=3, checkpoint_steps=2, watcher=Filler(ballast, 17))
    assert Checkpoints(folder / "checkpoints").newest()[1]["position"]["total"] == 16
    ballast.unlink()
    sha256, history = run(folder, epochs=3, checkpoint_steps=2)
    expected_sha256, expected_history = run(None, epochs=3)
    assert sha256 == expected_sha256
    assert without_seconds(history) == without_seconds(expected_history)


def trained(build) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    return model, take_steps(model, build(model.parameters()))


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int = 0) -> torch.optim.Optimizer:
    x = torch.randn(3, 8, 4, generator=torch.Generator().manual_seed(seed))
    for batch in x:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    "build",
    [
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), amsgrad=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.Adagrad(p, lr=0.1),
    ],
    ids=["AdamW", "momentum", "plain SGD", "Adagrad"],
)
def test_an_optimiser_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path, build):
    model, optimizer = trained(build)
    packed, plain = pack_optimizer(optimizer.state_dict())
    Checkpoints(tmp_path).save(1, with_prefix("optimizer", packed) | with_prefix("model", model.state_dict()), plain)

    found, state = Checkpoints(tmp_path).newest()
    other = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    other.load_state_dict(of_prefix("model", found))
    resumed = build(other.parameters())
    resumed.load_state_dict(unpack_optimizer(of_prefix("optimizer", found), state))

    take_steps(model, optimizer, seed=1)
    take_steps(other, resumed, seed=1)
    for expected, actual in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_random_states_come_back():
    device = torch.device("cpu")
    states = random_states(device)
    expected = torch.rand(5)
    restore_random_states(states, device)
    torch.testing.assert_close(torch.rand(5), expected, rtol=0, atol=0)


def test_prefixes_keep_sets_of_names_apart():
    joined = with_prefix("a", tensors(1)) | with_prefix("ab", tensors(2))
    assert of_prefix("a", joined).keys() == tensors().keys()
    assert of_prefix("a", joined)["step"] == 1
    assert of_prefix("ab", joined)["step"] == 2
