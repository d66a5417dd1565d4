"""One reader against damaged files for a while: what it made of them, and what of that is a fault."""

import math
import random
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.errors import EquipoiseError
from tests.fuzz.mutations import MUTATORS, mutated
from tests.fuzz.readers import Reader

SECONDS_A_FILE = 5.0  # of CPU time, so that a busy machine does not look like a hang
MEGABYTES_A_FILE = 300
MOST_SEEDS, MOST_FAULTS = 400, 20


class HangError(BaseException):
    """A file took too long; no reader's own ``except Exception`` stops it."""


@dataclass
class Outcome:
    """What came of all files.

    Args:
        processor_seconds: those in which this process ran; the others waited for the disk or for others.
        refusals: the lines of code where files were refused; a measure of how much of the reader was reached.
        faults: one for each place in the code: what was raised, and the file that did it.
    """

    reader: str
    seed: int
    seconds: float = 0.0
    processor_seconds: float = 0.0
    files: int = 0
    read: int = 0
    refusals: set[str] = field(default_factory=set)
    slowest_seconds: float = 0.0
    memory_mb: int = 0
    faults: dict[str, bytes] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "processor_seconds": round(self.processor_seconds, 1),
            "files": self.files,
            "read": self.read,
            "refusals": len(self.refusals),
            "slowest_seconds": round(self.slowest_seconds, 2),
            "memory_mb": self.memory_mb,
            "faults": list(self.faults),
        }


def fuzz(
    name: str, reader: Reader, folder: Path, *, seed: int, files: float = math.inf, seconds: float = math.inf
) -> Outcome:
    """Damage the reader's own files, and all that led to something new, until there were enough or the time is up.

    Args:
        files: how many to read; the same seed and number give the same files on every machine.
        seconds: of CPU time, so that a shared machine does not shorten the search; at most ten times that on the clock.
    """
    rng, outcome = random.Random(f"{name} {seed}"), Outcome(name, seed)
    seeds = reader.prepare(folder)
    known, own = list(seeds), len(seeds)
    begun, worked, before = time.monotonic(), time.process_time(), _peak_mb()
    while outcome.files < files and len(outcome.faults) < MOST_FAULTS:
        if time.process_time() - worked > seconds or time.monotonic() - begun > 10 * seconds:
            break
        content = _next(rng, reader, known, seeds, first=outcome.files)
        told = attempt(reader, folder, content, outcome)
        if outcome.files <= own and told != "read":
            outcome.faults.setdefault(f"a sound file is refused: {told}", content)
        outcome.memory_mb = _peak_mb() - before
        if outcome.memory_mb > MEGABYTES_A_FILE:
            outcome.faults.setdefault(f"{outcome.memory_mb} MB taken for {len(content)} bytes", content)
            before = _peak_mb()
        if told not in outcome.refusals:
            outcome.refusals.add(told)
            known.append(content)
            if len(known) > MOST_SEEDS:
                del known[own]
    outcome.seconds, outcome.processor_seconds = time.monotonic() - begun, time.process_time() - worked
    return outcome


def _next(rng: random.Random, reader: Reader, known: list[bytes], seeds: list[bytes], *, first: int) -> bytes:
    if first < len(seeds):  # unharmed, each of them must be read
        return seeds[first]
    if rng.random() < 0.02:
        return rng.randbytes(rng.choice((0, 1, 10, 300)))
    content = rng.choice(known if rng.random() < 0.7 else seeds)
    inside = [MUTATORS[kind] for kind in reader.inside]
    change = rng.choice(inside) if inside and rng.random() < 0.6 else mutated
    return change(content, rng, known, reader.tokens)


def attempt(reader: Reader, folder: Path, content: bytes, outcome: Outcome) -> str:
    """Read one file. Where it was refused, ``"read"``, or ``"fault"``, which the outcome then has."""
    outcome.files += 1
    start = time.process_time()
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="Reading `.npy` or `.npz` file required additional header")
            reader.read(folder, content)
    except EquipoiseError as error:
        if "\n" in str(error) or not str(error).strip():
            return _fault(outcome, f"a refusal that is no sentence: {str(error)[:300]!r}", content)
        return _lines(error)
    except (Exception, HangError) as error:
        return _fault(outcome, _where(error), content)
    finally:
        outcome.slowest_seconds = max(outcome.slowest_seconds, time.process_time() - start)
    outcome.read += 1
    return "read"


def _fault(outcome: Outcome, said: str, content: bytes) -> str:
    outcome.faults.setdefault(said, content)
    return "fault"


def _where(error: BaseException) -> str:
    """The error, and the lines of ours and of others where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/equipoise/" in frame.filename][-1:]
    places = ", ".join(f"{Path(frame.filename).name}:{frame.name}" for frame in (*ours, *frames[-1:]))
    return f"{type(error).__name__} in {places}: {str(error)[:200]}".splitlines()[0]


def _lines(error: BaseException) -> str:
    """The lines where an error and what it came from arose; unlike their sentences they do not change with the file."""
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return place if error.__cause__ is None else f"{place} from {_lines(error.__cause__)}"


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise HangError(f"more than {SECONDS_A_FILE} seconds for one file")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS_A_FILE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
