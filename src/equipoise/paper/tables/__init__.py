"""The paper's tables beside its own figures, with every rival in the same run."""

from equipoise.paper.tables.illustrations import illustrate, illustration_page
from equipoise.paper.tables.table_cases import TABLES
from equipoise.paper.tables.table_page import table_page
from equipoise.paper.tables.table_runner import TableResult, run_table

__all__ = ["TABLES", "TableResult", "illustrate", "illustration_page", "run_table", "table_page"]
