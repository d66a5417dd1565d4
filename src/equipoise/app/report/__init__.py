"""A run's record becomes one HTML page that needs nothing else: no network, no server, no torch."""

from equipoise.app.report.comparison import write_comparison
from equipoise.app.report.page import write_report

__all__ = ["write_comparison", "write_report"]
