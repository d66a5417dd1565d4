"""Where equipoise keeps what it can make again: unpacked archives, verified files, features."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$EQUIPOISE_CACHE``, else ``$XDG_CACHE_HOME/equipoise``, else ``~/.cache/equipoise``; it may not exist yet."""
    own = os.environ.get("EQUIPOISE_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "equipoise"
