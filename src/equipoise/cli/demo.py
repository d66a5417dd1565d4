"""``equipoise demo``."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Which classes become rare, and every other random choice.")
    ] = 0,
) -> None:
    """Softmax against equipoise on imbalanced digits, in under a minute.

    Example: equipoise demo --seed 1
    """
    from equipoise.demo import DemoResult, run_demo

    notes, console = Console(stderr=True), Console()
    notes.print("scikit-learn's digits, 90 % of half of the classes dropped")
    result: DemoResult = run_demo(seed=seed, announce=lambda name: notes.print(f"training {name} ..."))
    table = Table(title="Recall on an untouched, balanced test set")
    for heading in ("class", "train", "uncertainty", "margin", *result.recall, "change"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    before, after = result.recall.values()
    for c, name in enumerate(result.names):
        table.add_row(
            f"{name} [yellow]rare[/yellow]" if result.rare[c] else name,
            str(result.counts[c]),
            f"{result.uncertainty[c]:.1f}",
            f"{result.margins[c]:.2f}",
            *(f"{recall[c]:.1%}" for recall in result.recall.values()),
            f"{after[c] - before[c]:+.1%}",
        )
    table.add_section()
    for title, group in (("rare", result.rare), ("common", ~result.rare), ("all", result.rare | ~result.rare)):
        means = [float(recall[group].mean()) for recall in result.recall.values()]
        table.add_row(f"{title}, mean", "", "", "", *(f"{m:.1%}" for m in means), f"{means[1] - means[0]:+.1%}")
    console.print(table)
