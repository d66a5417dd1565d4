"""Whether the package works with other versions of what it needs: the core's tests under another Python; writes JSON.

python3.10 -m venv low
low/bin/pip install -c constraints-lowest.txt -e . 'pytest>=9' pytest-timeout hypothesis
python benchmarks/versions.py lowest --python low/bin/python
python benchmarks/versions.py newest --python .venv/bin/python
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
RESULT = Path(__file__).parent / "results" / "versions.json"
PACKAGES = (
    *("torch", "numpy", "scipy", "scikit-learn", "imbalanced-learn", "accelerate", "safetensors", "pillow", "pandas"),
    *("matplotlib", "jinja2", "typer", "rich"),
)
TESTS = (
    *("tests/losses", "tests/uncertainty", "tests/evaluation", "tests/models", "tests/training", "tests/data"),
    *(
        "tests/estimators/test_network.py",
        "tests/estimators/test_persistence.py",
        "tests/app/compare/test_methods.py",
        "tests/app/cli/test_train.py",
    ),
)
NOT_OURS = "ignore::pytest.PytestRemovedIn10Warning"  # scikit-learn's own checks under a newer pytest
ASK = "import importlib.metadata as m, platform, sys; print(platform.python_version(), *map(m.version, sys.argv[1:]))"


def run(python: Path) -> dict[str, Any]:
    """Versions, and how many tests passed, failed and were skipped."""
    said = subprocess.run([python, "-c", ASK, *PACKAGES], capture_output=True, text=True, check=True).stdout.split()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell ignores it for jobs behind its back; tests send it
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", NOT_OURS, f"--junitxml={report}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run([*command, *TESTS], cwd=ROOT, env=environment, check=False)
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode} and without a report.")
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return {"python": said[0], "versions": dict(zip(PACKAGES, said[1:], strict=True)), **counts, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of this set of versions, such as lowest")
    parser.add_argument("--python", type=Path, required=True)
    options = parser.parse_args()
    found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    found[options.name] = run(options.python.absolute())
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
