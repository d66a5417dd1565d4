"""The paper's tables, beside its own figures, every rival in the same run."""

from equipoise.reproduce.page import table_page
from equipoise.reproduce.run import TableResult, run_table
from equipoise.reproduce.tables import TABLES

__all__ = ["TABLES", "TableResult", "run_table", "table_page"]
