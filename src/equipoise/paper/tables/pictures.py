"""The illustration as pictures and a page."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from equipoise.paper.tables.illustration import Illustration
from equipoise.wording import EQUIPOISE

COMMON, RARE, OURS, INK = "#4477aa", "#cc6677", "#117733", "#333333"


def boundaries_picture(found: Illustration, axes: Any) -> None:
    """Both classifiers' boundaries on the samples they learnt from, and the closed-form best one."""
    case = found.boundaries
    axes.scatter(*case.x[~case.rare].T, s=4, color=COMMON, alpha=0.35, linewidths=0, label="common class")
    axes.scatter(*case.x[case.rare].T, s=16, color=RARE, linewidths=0, label="rare class, 1:50")
    axes.axvline(0, color=INK, linestyle=":", label="best for the true distributions")
    for values, colour, style, label in (
        (case.biased, RARE, "--", "cross-entropy"),
        (case.balanced, OURS, "-", EQUIPOISE),
    ):
        axes.contour(*case.grid, values, levels=[0.0], colors=colour, linestyles=style, linewidths=2)
        axes.plot([], [], color=colour, linestyle=style, linewidth=2, label=label)
    axes.set(xlim=(-4, 4), ylim=(-3, 3), aspect="equal", title="The rare class gets its room back")
    axes.legend(loc="lower left", fontsize="small", framealpha=0.9, markerscale=2)


def theorem_picture(found: Illustration, axes: Any) -> None:
    """The boundary over the imbalance: expected, and of the empirical minimiser."""
    ratios = [each.ratio for each in found.shrinking]
    axes.plot(ratios, [each.expected for each in found.shrinking], color=INK, label="½ log(τ_A/τ_B)")
    axes.plot(ratios, [each.median for each in found.shrinking], "o", color=RARE, label="fewest mistakes on samples")
    axes.axhline(0, color=INK, linestyle=":", label="best for the true distributions")
    axes.set(xscale="log", xlabel="samples of the common class for one of the rare", ylabel="boundary")
    axes.set_xticks(ratios, [str(ratio) for ratio in ratios])
    axes.minorticks_off()
    axes.set_title("Theorem 1: the rarer, the smaller its region")
    axes.legend(fontsize="small")


def regression_picture(found: Illustration, axes: Any) -> None:
    """The mean and its 95 % interval."""
    case = found.regression
    low, high = case.mean - 1.96 * case.deviation, case.mean + 1.96 * case.deviation
    axes.fill_between(case.grid, low, high, color=COMMON, alpha=0.2, linewidth=0, label="95 % interval")
    axes.plot(case.grid, np.sin(case.grid), color=INK, linestyle=":", label="truth")
    axes.plot(case.grid, case.mean, color=COMMON, label="mean")
    axes.plot(case.x, case.y, ".", color=RARE, label="observations")
    axes.set(xlabel="x", title="Few observations, a wide interval")
    axes.legend(loc="lower left", fontsize="small")


def rarity_picture(found: Illustration, axes: Any) -> None:
    """One point a class."""
    case = found.rarity
    axes.plot(case.counts, case.uncertainty, "o", color=OURS)
    for digit, (count, value) in enumerate(zip(case.counts, case.uncertainty, strict=True)):
        axes.annotate(str(digit), (count, value), xytext=(5, 3), textcoords="offset points", fontsize="small")
    axes.set(xscale="log", yscale="log", xlabel="training samples of the class", ylabel="class uncertainty")
    axes.set_title("Rare classes are uncertain (digits)")


PICTURES: dict[str, Callable[[Illustration, Any], None]] = {
    "boundaries": boundaries_picture,
    "theorem": theorem_picture,
    "regression": regression_picture,
    "rarity": rarity_picture,
}


def draw_pictures(found: Illustration) -> dict[str, bytes]:
    """Each picture as PNG."""
    drawn = {}
    for name, paint in PICTURES.items():
        figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
        try:
            paint(found, axes)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            buffer = BytesIO()
            figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
            drawn[name] = buffer.getvalue()
        finally:
            plt.close(figure)
    return drawn


def illustration_page(figures: dict[str, Any], *, pictures: str) -> str:
    """The page, from the numbers; ``pictures`` is where the PNG files lie, as seen from the page."""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    return "\n".join(
        [
            "# The paper's figures",
            "",
            "Repeat them with",
            "",
            "```text",
            f"equipoise reproduce illustration --seed {figures['seed']}",
            "```",
            "",
            *_boundaries_section(figures["boundaries"], pictures),
            *_theorem_section(figures, pictures),
            *_regression_section(figures["regression"], pictures),
            *_rarity_section(figures["rarity"], pictures),
            f"Seed {figures['seed']}. Versions: {versions}.",
            "",
        ]
    )


def _boundaries_section(crossing: dict[str, float], pictures: str) -> list[str]:
    return [
        "## A biased and a balanced boundary",
        "",
        f"![Two Gaussians and three boundaries]({pictures}boundaries.png)",
        "",
        "Two Gaussians, their means two standard deviations apart, 50 samples of the common class for one of",
        "the rare. The boundary that is best for the true distributions is x = 0. On the horizontal axis the",
        f"boundary of cross-entropy lies at {crossing['biased']:.2f}, that of the default at "
        f"{crossing['balanced']:.2f}.",
        "",
    ]


def _theorem_section(figures: dict[str, Any], pictures: str) -> list[str]:
    last = figures["theorem"][-1]
    rows = [
        f"| 1:{each['ratio']} | {each['expected']:.2f} | {each['median']:.2f} | {100 * each['smaller']:.0f} % | "
        f"{100 * each['recall']:.0f} % |"
        for each in figures["theorem"]
    ]
    return [
        "## Theorem 1",
        "",
        f"![The boundary over the imbalance]({pictures}theorem.png)",
        "",
        "The expected empirical loss is least at x = ½ log(τ_A/τ_B), so the rare class keeps the region beyond",
        f"that. Over {figures['draws']:,} draws of {figures['samples']:,} samples, the boundary with the fewest",
        "mistakes:",
        "",
        "| imbalance | expected boundary | median boundary | rare region too small in | recall of the rare class |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"At the best boundary the recall is 84 %; at 1:{last['ratio']} it is {100 * last['recall']:.0f} %.",
        "",
    ]


def _regression_section(widths: dict[str, float], pictures: str) -> list[str]:
    return [
        "## An interval that widens",
        "",
        f"![Gaussian-process regression]({pictures}regression.png)",
        "",
        "Gaussian-process regression, its kernel by maximum likelihood: the mean deviation is "
        f"{widths['many']:.2f} where 40",
        f"observations lie and {widths['few']:.2f} where 4 do.",
        "",
    ]


def _rarity_section(rarity: dict[str, Any], pictures: str) -> list[str]:
    return [
        "## Uncertainty against frequency",
        "",
        f"![Class uncertainty over class frequency]({pictures}rarity.png)",
        "",
        "Digits of scikit-learn, the most frequent class 20 times as frequent as the rarest: the rank correlation",
        f"of class uncertainty with the number of samples is {rarity['rank_correlation']:.2f}.",
        "",
    ]
