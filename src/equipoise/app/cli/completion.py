"""Shell completion of methods, backbones, models, tables of the paper, columns and class names of the data."""

import csv
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from equipoise.estimators.training_options import loss_and_preset_names
from equipoise.registry_names import backbone_names, family_names, method_names, model_names
from equipoise.storage.run_files import MODEL_RECORD

MOST_BYTES, MOST_CLASSES = 2**20, 200
"""How much of a table or record is looked at, so that the Tab key answers at once."""

Completion = Callable[[typer.Context, str], list[str]]


def one_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete one name out of a family."""

    def found(context: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001 - typer goes by these names
        return [name for name in names() if name.startswith(incomplete)]

    return found


def several_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete the last of several names with commas between."""

    def found(context: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last) and name not in taken]

    return found


def class_and_number(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the class in ``CLASS=0.95``, from the column of labels or from the run."""
    return [f"{name}=" for name in class_names(_typed(context)) if f"{name}=".startswith(incomplete)]


def column(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a column of the table."""
    header = _head_of_table(_typed(context))[:1]
    return [name for name in (header[0] if header else []) if name.startswith(incomplete)]


def _typed(context: typer.Context) -> dict[str, Any]:
    """Return the arguments typed so far by name; an option that still lacks its value leaves positions unparsed."""
    names = [each.name for each in context.command.params if each.param_type_name == "argument"]
    return context.params | {str(name): word for name, word in zip(names, context.args, strict=False)}


def class_names(typed: dict[str, Any]) -> list[str]:
    """Return the classes of RUN, or those of --target in the table, as far as they are typed."""
    with suppress(OSError, ValueError, TypeError):
        record = Path(str(typed.get("run")), MODEL_RECORD)
        if typed.get("run") and record.stat().st_size <= MOST_BYTES:
            return [str(name) for name in json.loads(record.read_bytes())["classes"]][:MOST_CLASSES]
    rows, target = _head_of_table(typed), typed.get("target")
    if not rows or target not in rows[0]:
        return []
    place = rows[0].index(target)
    found = dict.fromkeys(row[place] for row in rows[1:] if len(row) > place and row[place])
    return list(found)[:MOST_CLASSES]


def _head_of_table(typed: dict[str, Any]) -> list[list[str]]:
    """Return the first rows of a delimited table; none if it cannot be read."""
    path = Path(str(typed.get("data") or ""))
    with suppress(OSError, UnicodeDecodeError, csv.Error):
        if path.suffix.lower() in {".csv", ".tsv"} and path.is_file():
            with path.open("rb") as file:
                lines = file.read(MOST_BYTES).decode("utf-8-sig", errors="replace").splitlines()
            first = lines[0] if lines else ""
            return list(csv.reader(lines, delimiter=max(",;\t", key=first.count)))
    return []


def tables() -> list[str]:
    """Return the tables of the paper."""
    return [*family_names("equipoise.paper.tables.table_cases", "TABLES"), "illustration"]


methods = several_of(method_names)
TRAINING: dict[str, Completion] = {
    "method": one_of(loss_and_preset_names),
    "backbone": one_of(backbone_names),
    "model": one_of(lambda: dict.fromkeys(("network", "auto", *model_names()))),
    "target": column,
    "group": column,
    "time": column,
    "id": column,
    "recall": class_and_number,
    "precision_floor": class_and_number,
}
"""Completions of training options, by the name of their field."""
