"""The sections of a run's page; to add one, write a module with a function from run to ``Section``, and a line here.

The function returns None if a run has nothing to show there.
"""

from collections.abc import Callable

from equipoise.app.report.markup import Section
from equipoise.app.report.sections import (
    all_scores,
    before_after,
    blend,
    class_table,
    confusion,
    decide,
    gallery,
    hardness,
    human_review,
    provenance,
    reliability_diagrams,
    training_curves,
    uncertainty_frequency,
    verdict,
    words,
)
from equipoise.app.stored_run import StoredRun

SECTIONS: list[Callable[[StoredRun], Section | None]] = [
    verdict.section,
    decide.section,
    class_table.section,
    all_scores.section,
    uncertainty_frequency.section,
    before_after.section,
    confusion.section,
    reliability_diagrams.section,
    human_review.section,
    blend.section,
    training_curves.section,
    words.section,
    gallery.section,
    hardness.section,
    provenance.section,
]
"""In the page's order."""
