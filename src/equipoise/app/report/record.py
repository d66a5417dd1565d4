"""The run that a report is of, see :mod:`equipoise.app.stored_run`."""

from equipoise.app.output import one_line as shown
from equipoise.app.run_folder import REMEDY
from equipoise.app.stored_run import Floats, HeldOut, Trust
from equipoise.app.stored_run import StoredRun as Record
from equipoise.app.stored_run import read_run as read_record

__all__ = ["REMEDY", "Floats", "HeldOut", "Record", "Trust", "read_record", "shown"]
