"""Printing of classes, scores and progress on the command line."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from equipoise.app.output_files import printable, printable_json
from equipoise.app.run_watcher import RunWatcher
from equipoise.wording import counted

if TYPE_CHECKING:
    from equipoise.data.profile import ColumnProfile
    from equipoise.data.summary import ClassSummary
    from equipoise.evaluation import Scores

MOST_CLASSES = 40
"""Most rows of a class table on a terminal; beyond, the largest and the smallest classes are shown."""
ROOM = {"examples": 100, "because": 130}
"""Terminal width from which a table of columns shows more."""
SCORES = ("accuracy", "balanced_accuracy", "f1", "g_mean", "matthews", "auc", "macro_average_precision")
"""Scores of all classes together that are printed."""
PATIENCE = 15.0
"""Seconds without a terminal before progress gets a line: short commands print none."""


def shown(text: str) -> str:
    """Return text safe for a terminal: no markup, and no control characters that would move the cursor."""
    return escape(printable(text))


def print_sentence(sentence: str) -> None:
    """Print a sentence on a line of its own, on standard output."""
    Console().print(shown(sentence), highlight=False, soft_wrap=True)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a sentence on what became of the work."""


class ConsoleWatcher(RunWatcher):
    """Watcher that prints to standard error, so that standard output holds only the result."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.console = Console(stderr=True, quiet=quiet)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=quiet or not self.console.is_terminal,
        )
        self.task: TaskID | None = None
        self.clock = clock
        self.started = self.last_line = clock()

    def __enter__(self) -> "ConsoleWatcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def note(self, *sentences: str) -> None:
        """Print each sentence on a line of its own."""
        super().note(*sentences)
        for sentence in sentences:
            self.console.print(shown(sentence), highlight=False, soft_wrap=True)

    def summary(self, classes: "ClassSummary", *, train: int, test: int) -> None:
        """Print the class table."""
        super().summary(classes, train=train, test=test)
        print_summary(self.console, classes, title=f"{counted(train, 'sample')} to train on, {test:,} to score on")

    def columns(self, profiles: "Sequence[ColumnProfile]") -> None:
        """Print the table of columns."""
        if profiles:
            print_columns(self.console, profiles)

    def bytes_of(self, name: str, done: int, total: int) -> None:
        """Show a bar while a file downloads."""
        self.progress(done, total, name)

    def progress(self, done: int, total: int, name: str = "reading samples") -> None:
        """Show a bar that disappears at the end; without a terminal, an occasional line if it takes long."""
        if self.bar.disable:
            self._line(done, total, name)
            return
        if self.task is None:
            self.bar.start()
            self.task = self.bar.add_task(shown(name), total=total)
        self.bar.update(self.task, completed=done, total=total, description=shown(name))
        if done >= total:
            self.bar.remove_task(self.task)
            self.bar.stop()
            self.task = None

    def _line(self, done: int, total: int, name: str) -> None:
        """Print a line whenever a tenth more time has passed: hours of work print dozens of lines, not thousands."""
        now = self.clock()
        if now - self.last_line >= max(PATIENCE, (now - self.started) / 10):
            self.note(f"{done:,} of {total:,}: {name}")
            self.last_line = now


def new_table(*headings: str, left: Sequence[str], title: str | None = None) -> Table:
    """Return a table with these columns; all but those in ``left`` hold numbers, aligned to the right."""
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    return table


def print_summary(console: Console, classes: "ClassSummary", *, title: str) -> None:
    """Print the classes with their counts, the largest first, and how imbalanced they are."""
    what = "attribute" if classes.multilabel else "class"
    console.print(title, highlight=False)
    table = new_table(what, "samples", "share", "", left=(what, ""))
    rows = classes.rows()

    def cells(row: dict[str, Any]) -> list[str]:
        marked = "[yellow]rare[/yellow]" if row["group"] == "rare" else row["group"]
        return [shown(row["name"]), f"{row['count']:,}", f"{row['share']:.1%}", marked]

    add_rows(table, rows, cells)
    console.print(table)
    balance = "the least balanced attribute" if classes.multilabel else "the largest class over the smallest"
    console.print(f"{counted(len(rows), what)}, imbalance {classes.ratio:,.1f} ({balance})", highlight=False)


def print_columns(console: Console, profiles: "Sequence[ColumnProfile]", *, reasons: bool = False) -> None:
    """Print a row per column: its kind and, if there is room, examples and reasons.

    Args:
        reasons: list them below the table if it is too narrow for them.
    """
    headings = ["column", "kind", "missing", "distinct", "spread", "AUC"]
    more = [heading for heading, width in ROOM.items() if console.width >= width]
    table = new_table(*headings, *more, left=("column", "kind", "spread", *more))

    def cells(each: "ColumnProfile") -> list[str]:
        kind = f"[yellow]{each.kind}, ignored[/yellow]" if each.ignored else each.kind
        missing, area = f"{each.missing:.1%}" if each.missing else "", "–" if each.auc is None else f"{each.auc:.2f}"
        said = {"examples": ", ".join(each.examples), "because": each.reason}
        found = [shown(each.name), kind, missing, f"{each.distinct:,}", each.bars, area]
        return [*found, *(shown(said[heading]) for heading in more)]

    add_rows(table, list(profiles), cells)
    console.print(table)
    console.print(
        "AUC: how well the column alone ranks the rarest class; 0.5 is chance. --kind changes a column's kind, --drop "
        "leaves it out.",
        highlight=False,
    )
    if reasons and "because" not in more:
        for each in profiles:
            console.print(shown(f"{each.name}: {each.kind}, {each.reason}."), highlight=False, soft_wrap=True)


def print_scores(
    console: Console,
    scores: "Scores",
    classes: Sequence[str],
    *,
    uncertainty: Sequence[float | None] | None = None,
    margins: Sequence[float | None] | None = None,
    title: str = "On {samples:,} samples held out",
) -> None:
    """Print the results of each class, then the overall scores.

    Args:
        uncertainty, margins: one per class; None for another method, or after too few epochs.
    """
    console.print(title.format(samples=scores.samples), highlight=False)
    table = new_table("class", "tested", "recall", "precision", "F1", "uncertainty", "margin", left=["class"])

    def cells(place: int) -> list[str]:
        own = [scores.recall.each[place], scores.precision.each[place], scores.f1.each[place]]
        shares = ["–" if math.isnan(value) else f"{value:.1%}" for value in own]  # NaN: no sample of it to test
        learnt = [None if column is None else column[place] for column in (uncertainty, margins)]
        figures = ["–" if value is None else f"{value:.2f}" for value in learnt]
        return [shown(classes[place]), f"{scores.support[place]:,}", *shares, *figures]

    add_rows(table, sorted(range(len(classes)), key=lambda place: -scores.support[place]), cells)
    console.print(table)
    from equipoise.evaluation.bootstrap import FEW

    fewest = min((count for count in scores.support if count), default=0)
    for name, value, ends_of in _all_scores(scores):
        span = f"  [{ends_of[0]:.1%}, {ends_of[1]:.1%}]" if ends_of is not None and fewest >= FEW else ""
        console.print(f"{name:<20}{value:7.1%}{span}", highlight=False)
    if scores.intervals is not None and 0 < fewest < FEW:
        console.print(
            f"No intervals: only {counted(fewest, 'sample')} of the rarest class {'was' if fewest == 1 else 'were'} "
            f"tested; one more or less moves its recall by {1 / fewest:.1%}.",
            highlight=False,
            soft_wrap=True,
        )


def _all_scores(scores: "Scores") -> Iterator[tuple[str, float, list[float] | None]]:
    """Yield name, value and bootstrap interval of the defined scores."""
    from equipoise.evaluation.metrics import SCORE_NAMES, score_at

    plain = scores.as_dict()
    for name in SCORES:
        value = score_at(plain, name)
        if value is not None:
            yield SCORE_NAMES[name], float(value), score_at(plain["intervals"], name)
    for name, recall in scores.group_recall.items():
        yield f"recall, {name}", recall, None


def print_verdict(console: Console, headline: str, sentences: Sequence[str]) -> None:
    """Print whether the model is any good, and the figures behind it."""
    console.print()
    console.print(f"[bold]{shown(headline)}[/bold]", highlight=False, soft_wrap=True)
    for sentence in sentences:
        console.print(f"  {shown(sentence)}", highlight=False, soft_wrap=True)


def print_sets(console: Console, sets: dict[str, Any]) -> None:
    """Print per class how often the set of possible classes held the true one, and how often it had more than one."""
    console.print(
        f"Sets of possible classes at {sets['level']:.4g}: {sets['mean_size']:.2f} classes on average, "
        f"{sets['abstained']:.1%} of the samples with more than one",
        highlight=False,
    )
    table = new_table("class", "covered", "unanswered", "", left=("class", ""))

    def cells(row: tuple[str, dict[str, Any]]) -> list[str]:
        name, found = row
        shares = ["–" if found[part] is None else f"{found[part]:.1%}" for part in ("coverage", "abstained")]
        away = "left unanswered far more often than the rest" if found["verdict"] == "abstained away" else ""
        always = "never ruled out" if name in sets["never_ruled_out"] else ""
        return [shown(name), *shares, ", ".join(filter(None, (always, away)))]

    add_rows(table, list(sets["classes"].items()), cells)
    console.print(table)


def shares_sentence(what: str, shares: dict[str, float]) -> str:
    """Return a class prior in a line, the largest share first."""
    order = sorted(shares.items(), key=lambda pair: -pair[1])
    named = [f"{name} {share:.1%}" for name, share in order[:MOST_CLASSES]]
    return f"{what}: {', '.join(named)}{', …' if len(order) > MOST_CLASSES else ''}."


def print_json(content: Any) -> None:
    """Print one JSON object on standard output, escaping what a terminal would obey."""
    print(printable_json(json.dumps(content, ensure_ascii=False, allow_nan=False)))


def add_rows(table: Table, rows: list[Any], cells: Callable[[Any], Sequence[str]]) -> None:
    """Fill a table with the cells of each row, or with too many of the first and the last with a gap between."""
    half = MOST_CLASSES // 2
    for row in rows if len(rows) <= MOST_CLASSES else [*rows[:half], None, *rows[-half:]]:
        table.add_row(*(["…", *[""] * (len(table.columns) - 1)] if row is None else cells(row)))
