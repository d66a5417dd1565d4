"""The paper's tables, beside its own figures, every rival in the same run."""

from equipoise.reproduce.illustration import Illustration, illustrate
from equipoise.reproduce.page import table_page
from equipoise.reproduce.pictures import draw_pictures, illustration_page
from equipoise.reproduce.run import TableResult, run_table
from equipoise.reproduce.tables import TABLES

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
