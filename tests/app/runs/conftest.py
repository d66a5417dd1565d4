"""Finished runs, made once."""

import pytest

from tests.app.runs import made


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _plain_pages(monkeypatch):
    made.plain_pages(monkeypatch)


@pytest.fixture(scope="session")
def table_run(tmp_path_factory):
    return made.once(made.table_run, tmp_path_factory)


@pytest.fixture(scope="session")
def several_run(tmp_path_factory):
    return made.once(made.several_run, tmp_path_factory)


@pytest.fixture(scope="session")
def blend_run(tmp_path_factory):
    return made.once(made.blend_run, tmp_path_factory)


@pytest.fixture(scope="session")
def image_run(tmp_path_factory):
    return made.once(made.image_run, tmp_path_factory)
