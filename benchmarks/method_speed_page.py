"""The page of results from the record which ``method_speed.py`` writes: no figure is typed by hand."""


def page(record: dict, descriptions: dict[str, str]) -> str:
    """The results as a page of the documentation."""
    settings, versions = record["settings"], record["versions"]
    lines = [
        "# Speed of the method",
        "",
        "What do the loss, its gradient and the stochastic passes cost, compared with plain softmax and with other "
        "libraries? Repeat it with `python benchmarks/method_speed.py`.",
        "",
        f"One thread, batch {settings['batch']} × {settings['features']} features, "
        f"placement `{settings['placement']}`, strength {settings['strength']}, "
        f"margins evenly spaced from {settings['margins'].removesuffix(', evenly')}. "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ". The methods take turns. A ratio divides the first one's median CPU time by the second one's.",
        "",
        "| comparison | ratio | by wall time | target | met |",
        "|---|---|---|---|---|",
    ]
    for row in record["targets"]:
        wall = "" if row["wall_ratio"] is None else f"{row['wall_ratio']:.2f}"
        lines.append(
            f"| {row['what']} | {row['ratio']:.2f} | {wall} | {row['target']} | {'yes' if row['met'] else '**no**'} |"
        )
    for classes, times in record["losses"].items():
        lines += [
            "",
            f"## Forward and backward, {classes} classes",
            "",
            "| loss | what it is | CPU ms | wall ms | peak MB |",
        ]
        lines.append("|---|---|---|---|---|")
        for name, spent in times.items():
            peak = record["peak_mb"].get(classes, {}).get(name)
            lines.append(
                f"| {name} | {descriptions[name]} | {spent['cpu_ms']:.2f} | {spent['wall_ms']:.2f} | "
                f"{'' if peak is None else f'{peak:.0f}'} |"
            )
    lines += [
        "",
        f"Peak memory: {settings['memory']}.",
        "",
        f"## ResNet-18, {settings['images']} images of {settings['pixels']} × {settings['pixels']}, no gradients",
        "",
        "| what | CPU ms | wall ms |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {t['cpu_ms']:.0f} | {t['wall_ms']:.0f} |" for name, t in record["network"].items()]
    return "\n".join(lines) + "\n"
