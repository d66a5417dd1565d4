"""Finished runs, made once."""

import pytest

from tests.app.runs import made


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
