"""The paper's tables, beside its own figures, every rival in the same run."""

from equipoise.paper.tables.illustration import Illustration, draw_pictures, illustrate, illustration_page
from equipoise.paper.tables.run import TableResult, run_table
from equipoise.paper.tables.table_page import table_page
from equipoise.paper.tables.tables import TABLES

__all__ = [
    "TABLES",
    "Illustration",
    "TableResult",
    "draw_pictures",
    "illustrate",
    "illustration_page",
    "run_table",
    "table_page",
]
