"""The command line inside this process, and finished runs, as for the application."""

from tests.app.cli.conftest import equipoise
from tests.app.conftest import image_run

__all__ = ["equipoise", "image_run"]
