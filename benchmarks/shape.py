"""The shape of the source: modules, lines, who imports whom, and how many of them a fit passes through.

``python benchmarks/shape.py`` prints one JSON object; with PYTHONPATH at another version's ``src`` that version's.
"""

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import resource
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from pathlib import Path

FOUND = importlib.util.find_spec("equipoise")
assert FOUND is not None
assert FOUND.origin is not None
PACKAGE = Path(FOUND.origin).parent


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(every: dict[str, Path]) -> dict[str, set[str]]:
    """What each module imports of the package, wherever in it the import stands."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in every.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "equipoise":
                for one in node.names:
                    whole = f"{node.module}.{one.name}"
                    found[name].add(whole if whole in every else str(node.module))
            elif isinstance(node, ast.Import):
                found[name] |= {one.name for one in node.names if one.name in every}
        found[name].discard(name)
    return found


def longest_chain(wanted: dict[str, set[str]]) -> int:
    """How many modules the longest way down the imports has; one that comes back to itself is cut there."""
    depth: dict[str, int] = {}

    def below(name: str, above: frozenset[str]) -> int:
        if name not in depth:
            further = [below(one, above | {name}) for one in wanted.get(name, ()) if one not in above]
            depth[name] = 1 + max(further, default=0)
        return depth[name]

    return max(below(name, frozenset()) for name in list(wanted))


def passed() -> dict[str, int]:
    """Modules whose functions run during a fit and during ``equipoise train``, and frames down to the optimiser.

    Of the frames, those of this package are counted apart from those of the libraries between them.
    """
    import numpy as np
    import torch

    from equipoise import UncertaintyBalancedClassifier

    seen: set[str] = set()
    deepest: list[tuple[int, int]] = []
    step = torch.optim.AdamW.step

    def watched(self: torch.optim.AdamW, *rest: object, **named: object) -> object:
        stack = [Path(frame.filename) for frame in traceback.extract_stack()][1:-1]  # without this script's own
        deepest.append((len(stack), sum(path.is_relative_to(PACKAGE) for path in stack)))
        return step(self, *rest, **named)  # type: ignore[arg-type]

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_name != "<module>":  # being imported is no part of the way
            seen.add(code.co_filename)

    def counted() -> int:
        sys.setprofile(None)
        own = {name for name in seen if Path(name).is_relative_to(PACKAGE)}
        seen.clear()
        return len(own)

    def frames(start: str) -> dict[str, int]:
        every, own = max(deepest)
        deepest.clear()
        return {f"frames from {start} to the optimiser": every, f"of these, our own from {start}": own}

    torch.optim.AdamW.step = watched  # type: ignore[assignment,method-assign]
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    x = rng.normal(size=(120, 4)) + y[:, None]
    sys.setprofile(note)
    UncertaintyBalancedClassifier(epochs=6, random_state=0).fit(x, y)
    found = {"modules a fit passes": counted()} | frames("fit")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        table = Path(folder) / "table.csv"
        rows = [",".join(map(str, [*row, label])) for row, label in zip(x.tolist(), y.tolist(), strict=True)]
        table.write_text("\n".join(["a,b,c,d,label", *rows]), encoding="utf-8")
        sys.argv = ["equipoise", "train", str(table), "--target", "label", "--epochs", "6", "--quiet"]
        sys.argv += ["--out", str(Path(folder) / "run")]
        from equipoise.__main__ import main

        sys.setprofile(note)
        with contextlib.suppress(SystemExit):
            main()
        found |= {"modules train passes": counted()} | frames("train")
    torch.optim.AdamW.step = step  # type: ignore[method-assign]
    return found


def seconds(*command: str, times: int = 5) -> float:
    """Return the least CPU time of several starts, which other work on the machine hardly changes."""
    taken = []
    for _ in range(times):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return min(taken)


def main() -> None:
    """Print the figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    every = modules()
    wanted = imports(every)
    importers = [sum(name in targets for targets in wanted.values()) for name in every]
    nothing = seconds("-c", "pass")
    figures = {
        "modules": len(every),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in every.values()),
        "modules with one importer": importers.count(1),
        "longest import chain": longest_chain(wanted),
        **passed(),
        "CPU seconds of import equipoise": round(seconds("-c", "import equipoise") - nothing, 3),
        "CPU seconds of --help": round(seconds("-m", "equipoise", "--help") - nothing, 3),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
