"""No test of images touches the user's own cache."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("EQUIPOISE_CACHE", str(folder))
    return folder
