"""``docs/results/versions.md`` from ``results/versions.json``."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "versions.md"


def page(found: dict[str, dict[str, Any]]) -> str:
    """A column a set of versions."""
    sets = list(found.values())
    rows = [["Python", *(str(each["python"]) for each in sets)]]
    rows += [[package, *(str(each["versions"][package]) for each in sets)] for package in sets[0]["versions"]]
    passed = [each["tests"] - each["failures"] - each["errors"] - each["skipped"] for each in sets]
    rows.append(["tests passed", *(f"{number:,}" for number in passed)])
    rows.append(["failed", *(str(each["failures"] + each["errors"]) for each in sets)])
    rows.append(["skipped", *(str(each["skipped"]) for each in sets)])
    lines = [
        "# Versions",
        "",
        "Which versions of its dependencies does it work with? The tests of losses, uncertainty, models, training,",
        "evaluation, data, resampling, saved models, the estimator and the command `train` ran with the lowest",
        "versions that `pyproject.toml` allows (`constraints-lowest.txt`), and with the newest of everything but",
        "torch, which `constraints.txt` pins. Repeat it with",
        "",
        "```text",
        "python3.10 -m venv low",
        "low/bin/pip install -c constraints-lowest.txt -e . 'pytest>=9' pytest-timeout hypothesis",
        "python benchmarks/versions.py lowest --python low/bin/python",
        "python benchmarks/versions.py newest --python .venv/bin/python",
        "python benchmarks/versions_page.py",
        "```",
        "",
        f"| | {' | '.join(found)} |",
        f"|---{'|---' * len(sets)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    for name, each in found.items():
        if each["failed"]:
            lines += ["", f"Failed with the {name} versions: {', '.join(f'`{test}`' for test in each['failed'])}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(json.loads((HERE / "results/versions.json").read_text(encoding="utf-8"))), encoding="utf-8")
