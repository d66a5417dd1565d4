"""Reports: stored runs to self-contained HTML pages, without network, server or torch."""

from equipoise.app.report.run_page import write_report
from equipoise.app.report.several_runs_page import write_comparison

__all__ = ["write_comparison", "write_report"]
