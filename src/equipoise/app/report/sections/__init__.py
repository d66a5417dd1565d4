"""The sections of a run's page."""

from equipoise.app.report.sections.registry import SECTIONS

__all__ = ["SECTIONS"]
