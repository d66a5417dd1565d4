"""``equipoise data summary``."""

from typing import Any

from rich.console import Console

from equipoise.app.cli.flags import AsJson, Quiet, takes
from equipoise.app.cli.printing import ConsoleWatcher, print_columns, print_json, print_summary
from equipoise.data.columns.chosen_columns import ChosenColumns
from equipoise.wording import counted


@takes("data", "target", "labels", "drop", "keep", "kind")
def summary(*, as_json: AsJson = False, quiet: Quiet = False, **values: Any) -> None:
    """Show classes, columns and possible problems.

    Shows the counts of the classes and their imbalance. Lists for each column of a table its kind, missing and distinct
    values, their distribution, and how well it alone ranks the rarest class. Warns of columns that give the target
    away, duplicate rows and contradictory labels.

    \b
    Examples:
        equipoise data summary photos/
        equipoise data summary patients.csv --target diagnosis --json
    """
    from equipoise.data.sources import check_source, open_data

    columns = ChosenColumns(values["drop"], values["keep"], values["kind"])
    where = {"source": values["data"], "target": values["target"], "labels": values["labels"]}
    check_source(**where, columns=columns)
    from equipoise.data.leaks import leak_notes  # pandas
    from equipoise.data.profile import profile_columns
    from equipoise.data.summary import summarize
    from equipoise.data.time_order import order_note

    with ConsoleWatcher(quiet=quiet) as watcher:
        samples = columns.of(open_data(**where, progress=watcher.progress))
    found = summarize(samples.encoded[1], names=samples.class_names)
    profiles, ordered = [], None
    if samples.columns:
        kinds = columns.kinds(samples.columns)
        profiles = profile_columns(samples.x, samples.encoded[1], kinds=kinds)
        ordered = order_note(samples.x, [each.name for each in profiles if each.time])
    notes = [*samples.notes, *found.notes, *leak_notes(samples), *([ordered] if ordered else [])]
    watcher.note(*notes)
    if as_json:
        print_json(found.as_dict() | {"columns": [each.as_dict() for each in profiles], "notes": notes})
        return
    print_summary(Console(), found, title=counted(len(samples), "sample"))
    if profiles:
        print_columns(Console(), profiles, reasons=True)
