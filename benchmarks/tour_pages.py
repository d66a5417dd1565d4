"""Run the blocks of docs/tour-*.md and write below each what it prints; docs/images/report.png is a run's report.

python benchmarks/tour_pages.py [NAME...]     # all, or those named: tour-table, should-i-rebalance, ...
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r'^```(python|sh)\n(.*?)^```\n(?:\n```text title="prints"\n(.*?)^```\n)?', re.DOTALL | re.MULTILINE)
PAGES = [
    *("tour-table", "tour-images", "tour-text", "tour-recall", "tour-probabilities", "tour-network", "tour-paper"),
    "should-i-rebalance",
]
"""Pages whose output is checked; their blocks share a folder and run in order."""
WINDOW = "1100,1250"


def run(kind: str, code: str, folder: Path) -> str:
    """What a block prints, on both streams, in the folder that the blocks of a page share."""
    command = [sys.executable, "-c", code] if kind == "python" else ["bash", "-euo", "pipefail", "-c", code]
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    fixed = {"COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "EQUIPOISE_TEXT_ENCODER": "none"}
    environment = {**os.environ, "PATH": beside, **fixed}  # the same with and without the extra text
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"this block ended with {done.returncode}:\n{code}\n{done.stdout}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.strip("\n").split("\n") if done.stdout.strip())


def blocks(text: str) -> list[tuple[str, str, str | None]]:
    """Kind, code, and what is shown to be printed; None where nothing is shown."""
    return [(kind, code, shown if '"prints"' in whole else None) for whole, kind, code, shown in _found(text)]


def _found(text: str) -> list[tuple[str, str, str, str]]:
    return [(match[0], match[1], match[2], match[3] or "") for match in BLOCK.finditer(text)]


def rewritten(text: str, folder: Path) -> str:
    """The page with what its blocks print now."""
    for whole, kind, code, _ in _found(text):
        printed = run(kind, code, folder)
        if '"prints"' in whole:
            start = whole.index('```text title="prints"\n')
            text = text.replace(whole, f'{whole[:start]}```text title="prints"\n{printed}```\n')
    return text


def photograph(report: Path, picture: Path) -> None:
    """The first screens of a report, by a browser without a window."""
    browser = next(found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name)))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WINDOW}"]
    with tempfile.TemporaryDirectory() as profile:
        flags += [f"--user-data-dir={profile}", f"--screenshot={picture}"]
        subprocess.run([browser, *flags, report.resolve().as_uri()], check=True, capture_output=True)


def main(names: list[str]) -> None:
    """Rewrite the pages."""
    for name in names:
        page = DOCS / f"{name}.md"
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(rewritten(page.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
            if name == "tour-images":
                photograph(Path(folder) / "runs/digits/report.html", DOCS / "images/report.png")


if __name__ == "__main__":
    main(sys.argv[1:] or PAGES)
