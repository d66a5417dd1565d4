"""The same readers under atheris, which sees what code a file reaches and goes on from there.

It is not a dependency: ``pip install atheris``, then ``python -m tests.fuzz --guided --reader idx``.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LONGEST = 100_000


def guided(name: str, *, minutes: float, seed: int, kept: Path) -> dict[str, Any]:
    """One reader in a process of its own, because its fuzzer ends the process it is in."""
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="equipoise-fuzz-") as folder:
        command = [sys.executable, "-m", "tests.fuzz.guided", name, folder, str(kept), str(minutes), str(seed)]
        done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    said = done.stderr.decode(errors="replace")
    runs = re.search(r"Done (\d+) runs in (\d+) second", said)
    reached = re.findall(r"cov: (\d+)", said)
    if done.returncode or runs is None:
        return {"seed": seed, "faults": [f"atheris ended with {done.returncode}: {said[-2000:]}"]}
    return {
        "seed": seed,
        "seconds": float(runs[2]),
        "files": int(runs[1]),
        "reached": int(reached[-1]) if reached else 0,
        "faults": [],
    }


def main(name: str, place: str, kept: str, minutes: str, seed: str) -> None:
    """Never returns."""
    import atheris

    with atheris.instrument_imports(include=["equipoise"]):
        from tests.fuzz.fuzzing import Outcome, attempt
        from tests.fuzz.readers import READERS
    folder, corpus = Path(place) / "files", Path(place) / "corpus"
    folder.mkdir()
    corpus.mkdir()
    reader, outcome = READERS[name], Outcome(name, int(seed))
    for number, content in enumerate(reader.prepare(folder)):
        (corpus / f"{number}").write_bytes(content)

    def one(content: bytes) -> None:
        attempt(reader, folder, content, outcome)
        if outcome.faults:
            raise AssertionError(next(iter(outcome.faults)))

    words = Path(place) / "words"
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in reader.tokens if token))
    options = [f"-max_total_time={int(60 * float(minutes))}", f"-max_len={LONGEST}", f"-seed={int(seed) + 1}"]
    options += [f"-artifact_prefix={kept}/{name} ", f"-dict={words}", "-rss_limit_mb=0", "-timeout=120", str(corpus)]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main(*sys.argv[1:])
