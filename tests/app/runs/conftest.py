"""A cache of its own, and pages without pictures, for every test."""

import pytest

from tests.app.runs import made


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _plain_pages(monkeypatch):
    made.plain_pages(monkeypatch)
