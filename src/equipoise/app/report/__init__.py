"""Reports: stored runs to self-contained HTML pages, without network, server or torch."""

from equipoise.app.report.page import write_report
from equipoise.app.report.side_by_side import write_comparison

__all__ = ["write_comparison", "write_report"]
