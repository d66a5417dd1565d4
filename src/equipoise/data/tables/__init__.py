"""Tables in files, one module for each format."""

from equipoise.data.tables.registry import TABLE_READERS, TableReader

__all__ = ["TABLE_READERS", "TableReader"]
