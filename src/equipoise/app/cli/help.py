"""``equipoise help``."""

from typing import Annotated, Any

import typer

from equipoise.errors import InvalidInputError, did_you_mean


def help(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="A command, such as train or data summary.")
    ] = None,
) -> None:
    """Explain a command, or list all.

    \b
    Examples:
        equipoise help
        equipoise help train
        equipoise help data summary
    """
    found: Any = context.find_root()
    for word in command or []:
        known = getattr(found.command, "commands", {})
        if word not in known:
            raise InvalidInputError(f"unknown command {word!r}{did_you_mean(word, known)}")
        found = type(found)(known[word], info_name=word, parent=found)
    typer.echo(found.get_help())
