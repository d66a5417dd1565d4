"""Disks that are full or may not be written, and the command line inside this process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.cli.conftest import equipoise  # noqa: F401
from tests.app.conftest import table_run  # noqa: F401
from tests.app.runs import made


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own, in memory."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a file system can only be mounted by root on Linux")
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mount refused: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def small_disk(tmp_path):
    """A disk with room for 8 MB."""
    with mounted(tmp_path / "disk", "size=8m") as folder:
        yield folder


@pytest.fixture
def read_only(tmp_path):
    """Turns a folder into one that nobody may write to, not even root."""
    folder = tmp_path / "kept"
    with mounted(folder, "size=32m"):

        def turn() -> Path:
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
            return folder

        turn.folder = folder
        yield turn


@pytest.fixture(autouse=True)
def _plain_pages(monkeypatch):
    made.plain_pages(monkeypatch)
