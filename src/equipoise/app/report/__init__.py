"""Stored runs -> one HTML page that needs nothing else: no network, no server, no torch."""

from equipoise.app.report.page import write_report
from equipoise.app.report.side_by_side import write_comparison

__all__ = ["write_comparison", "write_report"]
