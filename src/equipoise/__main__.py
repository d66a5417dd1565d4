"""``python -m equipoise``, and the ``equipoise`` command."""

import sys
from contextlib import suppress

INTERRUPTED = 130
"""Exit code after Ctrl-C, following the shells' convention: 128 plus the signal's number."""


def main() -> None:
    """Run the command line; Ctrl-C ends it with one sentence at any time, even while modules are being imported."""
    try:
        from equipoise.main import main as run

        run()
    except SystemExit as end:
        from equipoise.cores_and_memory import end_past_threads

        end_past_threads(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise
    except KeyboardInterrupt:
        with suppress(OSError, AttributeError):  # standard error may be closed
            sys.stderr.write("stopped before it was finished.\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
