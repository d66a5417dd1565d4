"""What must hold before faces are aligned: one sentence for each thing that would go wrong later."""

import os
from pathlib import Path
from typing import get_args

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.aligned_files import Options, target_name
from equipoise.paper.faces.alignment import Choice


def check_options(options: Options, workers: int) -> None:
    """Options that make sense."""
    share = options.min_face
    if not 0 < share <= 1:
        raise InvalidInputError(f"min_face is a share of the image's shorter side, from 0 to 1; got {share:g}.")
    if options.choose not in get_args(Choice):
        raise InvalidInputError(f"a face is chosen by one of {', '.join(get_args(Choice))}; got {options.choose!r}.")
    if not 16 <= options.side <= 1024:
        raise InvalidInputError(f"aligned faces have a side of 16 to 1,024 pixels; got {options.side}.")
    if workers < 1:
        raise InvalidInputError(f"workers must be 1 or more; got {workers}.")


def check_folders(root: Path, out: Path, source: str | os.PathLike[str]) -> None:
    """Neither folder may lie in the other: faces would be aligned again, or originals overwritten."""
    if not root.is_dir():
        raise InvalidInputError(f"{str(source)!r} is no folder or archive; give the folder that holds the images.")
    one, other = root.resolve(), out.resolve()
    if one == other:
        raise InvalidInputError(f"{str(out)!r} holds the images themselves; give another folder for the aligned faces.")
    if one in other.parents:
        raise InvalidInputError(
            f"{str(out)!r} lies inside {str(source)!r}, where its faces would be taken for further images; give a "
            "folder outside."
        )
    if other in one.parents:
        raise InvalidInputError(f"{str(source)!r} lies inside {str(out)!r}; give a folder of its own for the faces.")


def check_names(folders: list[str], images: list[str]) -> None:
    """Each face needs a name of its own, also where a system does not tell capital letters from small ones."""
    for names, what in ((folders, "folder"), (images, "file")):
        first: dict[str, str] = {}
        for name in names:
            earlier = first.setdefault((target_name(name) if what == "file" else name).casefold(), name)
            if earlier != name:
                raise InvalidInputError(
                    f"{earlier!r} and {name!r} would be one {what} where capital letters do not count or GIF becomes "
                    "PNG; rename or merge them."
                )
