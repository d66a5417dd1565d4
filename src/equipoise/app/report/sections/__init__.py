"""The sections of a run's page: a new one is a module with a function from run to ``Section``, and a line here."""

from collections.abc import Callable

from equipoise.app.report.markup import Section
from equipoise.app.report.sections import (
    before_after,
    class_table,
    confusion,
    gallery,
    hardness,
    human_review,
    provenance,
    reliability_diagrams,
    training_curves,
    uncertainty_frequency,
    verdict,
)
from equipoise.app.stored_run import StoredRun

SECTIONS: list[Callable[[StoredRun], Section]] = [
    verdict.section,
    class_table.section,
    uncertainty_frequency.section,
    before_after.section,
    confusion.section,
    reliability_diagrams.section,
    human_review.section,
    training_curves.section,
    gallery.section,
    hardness.section,
    provenance.section,
]
"""In the page's order."""
