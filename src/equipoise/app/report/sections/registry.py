"""``SECTIONS`` of a run's page; to add one, write a module with a function ``section`` and its name here.

The function takes a run and returns a ``Section``, or None if the run has nothing to show there. A long template is a
file in ``templates/``.
"""

from collections.abc import Callable
from importlib import import_module

from equipoise.app.report.markup import Section
from equipoise.app.stored_run import StoredRun

NAMES = (
    "verdict",
    "decide",
    "class_table",
    "all_scores",
    "uncertainty_frequency",
    "before_after",
    "confusion",
    "reliability_diagrams",
    "human_review",
    "blend",
    "training_curves",
    "words",
    "gallery",
    "hardness",
    "provenance",
)
SECTIONS: list[Callable[[StoredRun], Section | None]] = [
    import_module(f"{__package__}.{name}").section for name in NAMES
]
"""In the page's order."""
