"""Pairs of faces drawn from a folder of people, and the list that they are written to."""

import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.app.output_files import write_file
from equipoise.data.images.scan import class_folders, scan_images
from equipoise.errors import InvalidInputError, listed
from equipoise.paper.face_options import PAIRS
from equipoise.paper.faces.pairs import FOLDS, FacePairs, NamedPair, Source, gather_pairs

TRIES = 20
"""Draws per wanted pair of two people; a small folder has fewer such pairs than that."""

People = dict[str, list[str]]  # images by person


def pairs_of_people(images: Source, *, pairs: int = PAIRS, folds: int = FOLDS, seed: int = 0) -> FacePairs:
    """Draw equally many pairs of one person and of two from ``PERSON/image.jpg``; no person is in two folds.

    Everybody with at least two images contributes pairs of one person in turn, so that people with many images do not
    dominate; a folder with too few images or people gives fewer pairs or folds.
    """
    if pairs < 2 * folds or folds < 2:
        raise InvalidInputError(f"there must be at least 2 folds, and 2 pairs for each, got {folds} and {pairs}.")
    found = scan_images(images)
    labelled = class_folders(found)
    who = dict(zip(labelled.names, labelled.y.tolist(), strict=True))
    people: People = defaultdict(list)
    for name, person in who.items():
        people[person].append(name)
    _check_names(people)
    rng = np.random.default_rng(seed)
    groups = _dealt(people, folds, rng)
    each = pairs // (2 * len(groups))
    named = [pair for fold, group in enumerate(groups, start=1) for pair in _fold_pairs(group, each, fold, rng)]
    single = sum(len(files) == 1 for files in people.values())
    notes = [*labelled.notes]
    if single:
        notes.append(f"{single:,} of {len(people):,} people have one image: they are in pairs of two people only.")
    if len(groups) < folds:
        notes.append(f"{len(people):,} people are enough for {len(groups)} folds.")
    if len(named) < 2 * len(groups) * each:
        notes.append(f"the images give {len(named):,} pairs, not {pairs:,}.")
    files = {name: (name,) for name in labelled.names}
    drawn = gather_pairs(named, files, found.root, source=str(images), people=who, skip_missing=False)
    return replace(drawn, notes=(*notes, *drawn.notes))


def check_new(path: Source) -> Path:
    """Return where a list of pairs may be written; refuse an existing file."""
    file = Path(path).expanduser()
    if file.exists():
        raise InvalidInputError(f"{file} exists; name a new file for the pairs, or use its pairs with --protocol list.")
    return file


def write_pairs(pairs: FacePairs, path: Source) -> None:
    """Write a plain list with folds, which ``--protocol list`` can read."""
    file = check_new(path)
    names = pairs.files
    if pairs.root is None or len(names) != pairs.faces:
        raise InvalidInputError("only pairs of image files can be written as a list.")
    odd = [name for name in names if any(sign in name for sign in "\t\n\r\\,#") or name != name.strip()]
    if odd:
        raise InvalidInputError(
            f"{listed(odd)} cannot be written to a list of pairs; remove tabs, commas, # and backslashes from the name."
        )
    lines = (
        f"{names[first]}\t{names[second]}\t{int(same)}\t{fold}\n"
        for first, second, same, fold in zip(pairs.first, pairs.second, pairs.same, pairs.fold, strict=True)
    )
    write_file(file, "".join(lines).encode())


def _check_names(people: People) -> None:
    first: dict[str, str] = {}
    for person in people:
        other = first.setdefault(person.casefold(), person)
        if other != person:
            raise InvalidInputError(
                f"{other!r} and {person!r} differ only in case; join the folders if they show one "
                "person, or rename one."
            )


def _dealt(people: People, folds: int, rng: np.random.Generator) -> list[People]:
    """Assign people to folds, those with several images first, so that every fold has some."""
    several = sorted(person for person, files in people.items() if len(files) > 1)
    single = sorted(person for person, files in people.items() if len(files) == 1)
    possible = min(folds, len(several), len(people) // 2)
    if possible < 2:
        raise InvalidInputError(
            f"pairs need 4 people, 2 of them with two images or more; got {len(people)} people, {len(several)} of them "
            "with two images."
        )
    order = [several[place] for place in rng.permutation(len(several))]
    order += [single[place] for place in rng.permutation(len(single))]
    return [{person: people[person] for person in order[start::possible]} for start in range(possible)]


def _fold_pairs(people: People, wanted: int, fold: int, rng: np.random.Generator) -> list[NamedPair]:
    """Draw equally many pairs of one person and of two."""
    same, different = _same_pairs(people, wanted, rng), _different_pairs(people, wanted, rng)
    count = min(len(same), len(different))
    kinds = [(names, True) for names in same[:count]] + [(names, False) for names in different[:count]]
    return [NamedPair(first, second, kind, fold, 0) for (first, second), kind in kinds]


def _same_pairs(people: People, wanted: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    each = []
    for files in people.values():
        total = len(files) * (len(files) - 1) // 2
        drawn = rng.choice(total, size=min(total, wanted), replace=False)
        each.append([_numbered_pair(files, int(number)) for number in drawn])
    rounds = itertools.zip_longest(*each)
    return [pair for pairs in rounds for pair in pairs if pair is not None][:wanted]


def _numbered_pair(files: list[str], number: int) -> tuple[str, str]:
    """Return the two images of a pair: pair 0 is (0, 1), pair 1 is (0, 2), pair 2 is (1, 2), pair 3 is (0, 3), ..."""
    later = int((1 + (1 + 8 * number) ** 0.5) / 2)
    while later * (later - 1) // 2 > number:  # the root may be rounded to the next whole number
        later -= 1
    return files[number - later * (later - 1) // 2], files[later]


def _different_pairs(people: People, wanted: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    names = list(people)
    drawn: dict[tuple[str, str], None] = {}
    for _ in range(TRIES * wanted):
        if len(drawn) == wanted:
            break
        one, other = (people[names[place]] for place in rng.choice(len(names), size=2, replace=False))
        first, second = sorted((one[int(rng.integers(len(one)))], other[int(rng.integers(len(other)))]))
        drawn.setdefault((first, second))
    return list(drawn)
