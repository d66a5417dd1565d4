"""``docs/results/versions.md`` from ``results/versions.json``."""

import json
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "versions.md"


def page(found: dict[str, dict[str, object]]) -> str:
    """A column a set of versions."""
    names = list(found)
    packages = list(dict.fromkeys(name for each in found.values() for name in each["versions"]))
    rows = [["Python", *(str(found[name]["python"]) for name in names)]]
    rows += [[package, *(str(found[name]["versions"].get(package, "–")) for name in names)] for package in packages]
    passed = [
        each["tests"] - each["failures"] - each["errors"] - each["skipped"]  # type: ignore[operator]
        for each in found.values()
    ]
    rows.append(["tests passed", *(f"{number:,}" for number in passed)])
    for field in ("failures", "errors", "skipped"):
        rows.append([field, *(str(found[name][field]) for name in names)])
    lines = [
        "# Versions",
        "",
        "Tests of losses, uncertainty, models, training, evaluation, data and the estimator, with the lowest versions",
        "that `pyproject.toml` allows and with those that `constraints.txt` and the day gave. Repeat it with",
        "",
        "```text",
        "python benchmarks/versions.py lowest --python low/bin/python && python benchmarks/versions_page.py",
        "```",
        "",
        f"| | {' | '.join(names)} |",
        f"|---{'|---' * len(names)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    failed = {name: each["failed"] for name, each in found.items() if each["failed"]}
    for name, tests in failed.items():
        lines += [f"Failed with the {name} versions: {', '.join(f'`{test}`' for test in tests)}.", ""]  # type: ignore[attr-defined]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(json.loads((HERE / "results/versions.json").read_text(encoding="utf-8"))), encoding="utf-8")
