"""The file that predictions go to: its format, and whether it may be written."""

from pathlib import Path

from equipoise.errors import InvalidInputError

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def format_of(out: Path | None, asked: str | None) -> str:
    """By what was asked for, else by the file's ending, else CSV."""
    kinds = sorted(set(FORMATS.values()))
    if asked is not None and asked not in kinds:
        raise InvalidInputError(f"--format must be one of {', '.join(kinds)}, got {asked!r}.")
    if out is None:
        if asked == "parquet":
            raise InvalidInputError("Parquet cannot be printed; name a file with --out.")
        return asked or "csv"
    known = FORMATS.get(out.suffix.lower())
    if asked is None and known is None:
        raise InvalidInputError(f"{out.name} must end in {', '.join(FORMATS)}, or say --format.")
    return asked or str(known)


def check_free(out: Path, force: bool) -> None:
    """Refuse a folder, and a file that may not be replaced."""
    if out.is_dir():
        raise InvalidInputError(f"{out} is a folder; name a file.")
    if out.exists() and not force:
        raise InvalidInputError(f"{out} exists; pass --force to replace it, or name another file.")
