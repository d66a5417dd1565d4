"""A section of docs/reliability.md from the JSON of kill_points.py."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks/results/kill_points.json"
NAMES = {
    "train": ("`equipoise train`", "epochs"),
    "reproduce": ("`equipoise reproduce`", "fits"),
    "features": ("feature extraction", "rows"),
    "predict": ("`equipoise predict`", "answers"),
}
"""What was killed, and what is counted of it."""


def lines() -> list[str]:
    """Return the section, line by line."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    rows, total, wrong = [], 0, 0
    for subject, found in result["subjects"].items():
        kills, (name, counted) = found["kills"], NAMES[subject]
        safe = [kill["safe"] for kill in kills]
        writing = sum(bool(kill["being_written"]) for kill in kills)
        problems = sum(bool(kill["problems"]) for kill in kills)
        total, wrong = total + len(kills), wrong + problems
        kept = (
            f"{min(safe):,} to {max(safe):,} {counted}"
            if any(safe)
            else f"no {counted}: a file appears only when complete"
        )
        rows.append(f"| {name} | {len(kills)} | {kept} | {writing} | {problems} |")
    return [
        "## Killed at any moment",
        "",
        f"Does a crash lose or corrupt anything? We killed {total} processes with SIGKILL at random moments and ran "
        f"the same command again. In {total - wrong} of {total} cases every file under its final name was complete, "
        "no saved work was repeated, the killed process left nothing behind, and the results were bit-identical to "
        "those of an undisturbed process, apart from recorded run times. Repeat it with `python "
        "benchmarks/kill_points.py`.",
        "",
        "| what was killed | kills | already saved | during a write | results that differed |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"Seed {result['seed']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        + ".",
    ]


if __name__ == "__main__":
    print("\n".join(lines()))
