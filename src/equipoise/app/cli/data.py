"""``equipoise data summary``."""

from typing import Any

from rich.console import Console

from equipoise.app.cli.flags import AsJson, Quiet, takes
from equipoise.app.cli.printing import ConsoleWatcher, print_columns, print_json, print_summary
from equipoise.data.columns.chosen_columns import ChosenColumns
from equipoise.wording import counted


@takes("data", "target", "labels", "drop", "keep", "kind")
def summary(*, as_json: AsJson = False, quiet: Quiet = False, **values: Any) -> None:
    """Show classes, counts and imbalance, the columns of a table, and what is odd about the data.

    Lists for each column its kind, missing and distinct values, their spread, and how well it alone ranks the rarest
    class. Warns of columns that give the target away, repeated rows and contradicting labels.

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

    with ConsoleWatcher(quiet=quiet) as watcher:
        samples = columns.of(open_data(**where, progress=watcher.progress))
    found = summarize(samples.y, names=samples.attributes or None)
    profiles = []
    if hasattr(samples.x, "columns"):
        kinds = columns.kinds([str(name) for name in samples.x.columns])
        profiles = profile_columns(samples.x, samples.y, kinds=kinds)
    notes = [*samples.notes, *found.notes, *leak_notes(samples)]
    for sentence in notes:
        watcher.note(sentence)
    if as_json:
        print_json(found.as_dict() | {"columns": [each.as_dict() for each in profiles], "notes": notes})
        return
    print_summary(Console(), found, title=counted(len(samples), "sample"))
    if profiles:
        print_columns(Console(), profiles)
