"""``python -m tests.fuzz --minutes 10 [--reader NAME]``: each reader for so long, in a process of its own."""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL

import equipoise
from tests.fuzz.fuzzing import fuzz
from tests.fuzz.guided import guided
from tests.fuzz.readers import READERS

RESULT = Path(__file__).parents[2] / "benchmarks/results/fuzz.json"
GRACE_SECONDS = 600  # a process that takes so much longer than it should hangs where Python cannot stop it


def one(name: str, *, seconds: float, seed: int, kept: Path) -> dict[str, Any]:
    """A reader in this process; the files that are its faults are kept."""
    with tempfile.TemporaryDirectory(prefix="equipoise-fuzz-") as place:
        folder = Path(place) / "files"
        folder.mkdir()
        outcome = fuzz(name, READERS[name], folder, seconds=seconds, seed=seed)
    for said, content in outcome.faults.items():
        kept.mkdir(parents=True, exist_ok=True)
        path = kept / f"{name} {hashlib.sha256(content).hexdigest()[:12]}"
        path.write_bytes(content)
        print(f"{name}: {said}\n    {path}", file=sys.stderr)
    return outcome.as_dict()


def in_its_own_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The same where a dead or stuck process is a fault like any other."""
    command = [sys.executable, "-m", "tests.fuzz", "--here", "--reader", name]
    command += ["--minutes", str(options.minutes), "--seed", str(options.seed), "--keep", str(options.keep)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=600 * options.minutes + GRACE_SECONDS, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return {"seed": options.seed, "faults": ["it never came back"]}
    if done.returncode:
        return {"seed": options.seed, "faults": [f"the process ended with {done.returncode}"]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def keep(name: str, found: dict[str, Any], engine: str) -> None:
    """A reader's figures into the JSON; the others' stay."""
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    versions = {"equipoise": equipoise.__version__, "numpy": np.__version__, "pandas": pd.__version__}
    versions |= {"pillow": PIL.__version__, "python": platform.python_version()}
    known.setdefault(engine, {})[name] = found | {"versions": versions}
    RESULT.write_text(json.dumps(known, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of CPU time for each reader")
    parser.add_argument("--reader", choices=READERS, action="append", help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other files")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "equipoise-faults")
    parser.add_argument("--guided", action="store_true", help="by atheris, which must be installed")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.here:
        seconds = 60 * options.minutes
        print(json.dumps(one(options.reader[0], seconds=seconds, seed=options.seed, kept=options.keep)))
        return 0
    faults = 0
    for name in options.reader or READERS:
        if options.guided:
            found = guided(name, minutes=options.minutes, seed=options.seed, kept=options.keep)
        else:
            found = in_its_own_process(name, options)
        keep(name, found, "atheris" if options.guided else "mutations")
        faults += len(found["faults"])
        print(f"{name}: {json.dumps(found)}", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
