"""docs/results/network-members.md from the JSON of network_members.py."""

import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/network_members.json", ROOT / "docs/results/network-members.md"


def lines() -> list[str]:
    """Return the page, line by line."""
    found = json.loads(RESULTS.read_text())
    cells = found["cells"]
    tables = list(dict.fromkeys(key.split(" | ")[0] for key in cells))
    ways = list(dict.fromkeys(key.split(" | ")[1] for key in cells))
    means = {
        way: {
            name: float(np.mean([cells[f"{table} | {way}"][name] for table in tables]))
            for name in ("seconds", "balanced_accuracy", "log_loss", "out_of_fold")
        }
        for way in ways
    }
    return [
        "# How the network's members share work",
        "",
        "How can five cross-fitted networks be trained cheaply? The networks alone, without the rest of the blend: "
        f"means over {len(tables)} tables ({', '.join(tables)}), one fold each. Times are CPU seconds on one "
        "thread of a shared machine: compare the ratios. Repeat it with",
        "",
        "```text",
        "EQUIPOISE_DATA=… OMP_NUM_THREADS=1 python benchmarks/network_members.py && "
        "python benchmarks/network_members_page.py",
        "```",
        "",
        "| members | fit, s | balanced accuracy, % | log loss on new rows | log loss out of fold |",
        "|---|---|---|---|---|",
        *(
            f"| {way} | {mean['seconds']:.2f} | {100 * mean['balanced_accuracy']:.1f} | {mean['log_loss']:.3f} | "
            f"{mean['out_of_fold']:.3f} |"
            for way, mean in means.items()
        ),
        "",
        "- *Packed* members have separate weights and take their steps together, with batched matrix products and a "
        "hand-written gradient. This is what the blend uses.",
        "- *Shared weights* follow BatchEnsemble, as TabM does: all members share one matrix per layer and have two "
        "vectors each. Every row trains the shared matrices, even the rows that a member leaves out. So predictions "
        "are no longer out of fold, which calibration, margins, sets and blend weights rely on. The last two columns "
        "show no harm here, but no gain either: the log loss is about that of packed members. Our version runs on "
        "autograd, one member after the other, so its time is an upper limit. It is not used.",
        "- 128 units cost about twice the time of 64. The default takes 64 up to 10,000 rows and 128 above.",
        "",
        f"Versions: {', '.join(f'{name} {value}' for name, value in found['versions'].items())}.",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n")
