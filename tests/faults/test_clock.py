"""A clock that jumps: durations come from one that cannot, and no result depends on either."""

import ast
import hashlib
import os
import random
import tarfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import equipoise
from equipoise.app.compare.deadline import Deadline
from equipoise.app.runs import RunOptions, train_run
from equipoise.storage.archives import unpack

SOURCES = sorted(Path(equipoise.__file__).parent.rglob("*.py"))
WALL_CLOCKS = {("time", name) for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime")}
WALL_CLOCKS |= {("datetime", name) for name in ("now", "today", "utcnow")} | {("date", "today")}


def test_no_module_asks_what_time_it_is():
    asked = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                asked += [f"{path.name}:{node.lineno}"] * ((node.value.id, node.attr) in WALL_CLOCKS)
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                asked += [f"{path.name}:{node.lineno}"] * any(("time", one.name) in WALL_CLOCKS for one in node.names)
    assert asked == []


@pytest.fixture
def jumping(monkeypatch):
    """The clock on the wall goes forth and back by up to thirty years whenever anybody looks at it."""
    draw, real = random.Random(0), time.time
    looks = []

    def jumped():
        looks.append(draw.uniform(-1e9, 1e9))
        return max(0.0, real() + looks[-1])

    monkeypatch.setattr(time, "time", jumped)
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * jumped()))
    return looks


def trained(folder: Path) -> tuple[str, float]:
    x = np.random.default_rng(0).normal(size=(90, 3)).round(3)
    folder.mkdir()
    pd.DataFrame(x, columns=list("abc")).assign(y=(x[:, 0] > 0.7).astype(int)).to_csv(folder / "t.csv", index=False)
    started = time.perf_counter()
    result = train_run(RunOptions(str(folder / "t.csv"), epochs=3), folder / "run")
    assert 0 < result.seconds <= time.perf_counter() - started + 0.01
    return hashlib.sha256((folder / "run/model.safetensors").read_bytes()).hexdigest(), result.seconds


def test_training_gives_the_same_model_and_true_durations(tmp_path, jumping):
    first, second = trained(tmp_path / "one"), trained(tmp_path / "two")
    assert first[0] == second[0]
    assert time.time() != pytest.approx(time.time(), abs=1e3)  # it does jump
    assert jumping


def test_a_budget_is_kept_whatever_the_clock_on_the_wall_says(jumping):
    assert Deadline(time.monotonic(), 1e6).left > 0
    assert Deadline(time.monotonic() - 2, 1.0).left < 0
    assert all(abs(jump) <= 1e9 for jump in jumping)


def test_another_archive_of_the_same_name_size_and_time_is_unpacked_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "photos.tar"

    def packed(word: str) -> str:
        (tmp_path / "file.txt").write_text(word)
        with tarfile.open(archive, "w") as tar:
            tar.add(tmp_path / "file.txt", "file.txt")
        os.utime(archive, ns=(10**18, 10**18))  # as a clock that went back would have it
        return (unpack(archive) / "file.txt").read_text()

    assert packed("one") == "one"
    assert packed("two") == "two"
