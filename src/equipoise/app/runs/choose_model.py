"""The choice of a run's model, and its training."""

from pathlib import Path
from typing import Any

from equipoise.app.imported_estimator import imported_estimator
from equipoise.app.run_folder import are_several
from equipoise.app.runs.choose_split import Targets
from equipoise.app.runs.predictors import BlendPredictor, NetworkPredictor, Predictor, within_reach
from equipoise.app.runs.preprocessing import RunInput
from equipoise.app.runs.run_options import AUTO, NETWORK, RunOptions
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.estimators.families import FAMILIES, as_estimators, default_families
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.estimators.pickle_free.member_files import check_storable
from equipoise.estimators.training_options import training_values


def own_estimator(options: RunOptions) -> Any:
    """Return the estimators of ``--model``, importing the user's own; None for a network and the default.

    An unusable one is found before any data are read.
    """
    if options.model is None or ":" not in options.model:
        return None if options.model in (None, NETWORK) else options.model
    found = imported_estimator(options.model)
    for each, _ in as_estimators(found, 1):
        check_storable(each)
    return found


def choose_model(options: RunOptions, prepared: RunInput, targets: Targets) -> tuple[str, str | None]:
    """Return the name of the model to train, and a note if the choice may surprise the user."""
    if prepared.streamed:
        if options.model not in (None, NETWORK):
            raise InvalidInputError(
                f"--model {options.model} needs the whole table, and {options.data} is read in parts; leave --model "
                "out for the network, or pass --in-memory."
            )
        return NETWORK, None if options.model else "a table that is read in parts trains the network."
    if options.model is not None:
        if options.model != NETWORK and prepared.backbone is not None:
            raise InvalidInputError(
                f"--model {options.model} takes a table, or images through a frozen backbone (--weights, --freeze); "
                "leave it out for images."
            )
        return options.model, _left_out(targets) if options.model == AUTO else None
    if prepared.encoder is None:
        return NETWORK, None
    if options.of_network:
        return (
            NETWORK,
            f"{options.of_network[0]} is an option of the network, so the network is trained instead of --model auto.",
        )
    if are_several():
        return NETWORK, "several processes train a network; --model auto needs a single process."
    return AUTO, _left_out(targets)


def _left_out(targets: Targets) -> str | None:
    """Return which classifiers the default leaves out for many classes."""
    classes = 2 if targets.several else len(targets.classes)
    missing = [family.label for name, family in FAMILIES.items() if name not in default_families(classes)]
    if not missing:
        return None
    return f"--model auto leaves out {' and '.join(missing)}, which is slow with {classes:,} classes."


def fit_model(
    model: Any, options: RunOptions, prepared: RunInput, rows: Any, train: Samples, *, folder: Path, verbose: int
) -> Predictor:
    """Train a model.

    Args:
        model: ``"network"``, or what :class:`BalancedClassifier` takes.
        prepared: its backbone is trained below a network's head.
        rows: the training samples ``train`` as the model takes them.
        folder: of the run, where a network keeps its epochs.
        verbose: 1 shows progress: a bar on a terminal for a network, a line for each classifier of a blend.
    """
    if model != NETWORK:
        blend = BalancedClassifier(model, verbose=verbose, random_state=options.seed)
        return BlendPredictor(blend.fit(within_reach(rows), train.y, groups=train.groups))
    network = UncertaintyBalancedClassifier(
        **training_values(options),
        backbone=prepared.backbone,
        run_dir=folder,
        verbose=verbose,
        random_state=options.seed,
    ).fit(rows, train.y)
    return NetworkPredictor(network, network.network_)
