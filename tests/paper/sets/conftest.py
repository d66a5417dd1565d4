"""Archives are unpacked into a cache of the test session's own."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIPOISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
