"""Where the cache lies."""

from pathlib import Path

from equipoise.storage.cache import cache_folder


def test_the_variable_of_our_own_wins_then_the_system_s_then_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EQUIPOISE_CACHE", "~/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("EQUIPOISE_CACHE", "")  # as good as unset
    assert cache_folder() == Path("/shared/equipoise")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "equipoise"
    assert list(tmp_path.iterdir()) == []  # asking makes nothing
