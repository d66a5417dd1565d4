"""The scikit-learn face: ``UncertaintyBalancedClassifier().fit(X, y)``."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.evaluation import move_prior
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.losses.uncertainty_margin import Form, SampleLevel
from equipoise.saving import SavedModel, load_model, save_model
from equipoise.training import ArrayData, Bar, Curriculum, Network, Recipe, Settings, train
from equipoise.training.curriculum import StrengthRule
from equipoise.training.defaults import choose_batch_size, choose_epochs, choose_width, hold_out, suitable_threads
from equipoise.training.prepare import class_counts
from equipoise.training.targets import encode_labels
from equipoise.uncertainty import mc_dropout
from equipoise.uncertainty.classes import UncertaintyKind

Array = NDArray[Any]
ROWS_AT_ONCE = 4096
KEEP_TRAINING_PRIOR = ("cross_entropy", "focal")
"""Methods whose probabilities keep the training samples' class mix; all others aim at a balanced one."""


class UncertaintyBalancedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural classifier for imbalanced data: uncertainty decides how much room each class and sample gets.

    Parameters
    ----------
    method : a name of ``equipoise.losses.LOSSES``; the default is the paper's full method.
    backbone : any ``nn.Module`` from X to features of shape (batch, D), of which a copy is trained. None takes the
        paper's network: standardised columns, two hidden layers, dropout.
    form, sample_level : of ``UncertaintyMarginLoss``.
    width, epochs, batch_size : None chooses from the size of the data; ``history_["chosen"]`` says what.
    learning_rate, weight_decay : of AdamW, whose rate decays to 0 along a cosine.
    dropout : share dropped between the hidden layers and before the class vectors.
    passes : stochastic passes for the uncertainty of classes and samples.
    kind : of class uncertainty, see ``class_uncertainty``.
    strength : how strong the margins are, see ``Curriculum``: ``"uncertainty"`` needs no held-out samples,
        ``"feedback"`` measures it on them.
    validation_fraction : share of the training samples held out, stratified, for ``strength="feedback"`` and for
        ``early_stopping``; without these every sample trains.
    early_stopping : stop when balanced accuracy on the held-out samples has not improved for ``patience`` epochs,
        and keep the best epoch's weights.
    warm_start : start from the weights of the last fit.
    run_dir : a folder for ``metrics.jsonl`` and checkpoints; a fit that was interrupted there goes on.
    verbose : 1 shows a progress bar on a terminal.
    random_state : seed; the same seed gives the same weights.

    Attributes
    ----------
    classes_ : the labels, or 0 to K - 1 for K attributes.
    class_uncertainty_, margins_ : one a class, (classes,) or (attributes, 2); None for methods without them.
    history_ : ``{"chosen": what was chosen for these data, "epochs": one record an epoch}``.
    network_ : the trained torch module.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = UncertaintyBalancedClassifier(epochs=5, random_state=0).fit(X, y)
    >>> clf.predict(X[:3])
    array([0, 1, 2])
    """

    def __init__(
        self,
        method: str = "uncertainty_margin",
        *,
        backbone: nn.Module | None = None,
        form: Form = "additive",
        sample_level: SampleLevel = "expected",
        width: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.5,
        dropout: float = 0.5,
        passes: int = 10,
        kind: UncertaintyKind = "unresolved",
        strength: StrengthRule = "uncertainty",
        validation_fraction: float = 0.1,
        early_stopping: bool = False,
        patience: int = 10,
        warm_start: bool = False,
        run_dir: str | Path | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.backbone = backbone
        self.form = form
        self.sample_level = sample_level
        self.width = width
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.passes = passes
        self.kind = kind
        self.strength = strength
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.patience = patience
        self.warm_start = warm_start
        self.run_dir = run_dir
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "UncertaintyBalancedClassifier":
        """Fit to X (samples, columns), or (samples, ...) with a backbone, and y: labels, or a 0/1 matrix."""
        if self.method not in LOSSES:
            raise InvalidInputError(f"method must be one of {', '.join(LOSSES)}, got {self.method!r}.")
        many = self.backbone is not None  # a backbone takes rows of any shape
        x, labels = validate_data(self, X, y, dtype=np.float32, multi_output=True, allow_nd=many, ensure_min_samples=2)
        self.classes_, target = encode_labels(labels)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, x, dtype=np.float32)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows, held = hold_out(target, self._held_out_share(), seed=seed)
        settings = self._settings(len(rows), seed)
        with torch.random.fork_rng():  # the caller's random numbers are not ours to use up
            torch.manual_seed(seed)
            network = self._network(x, target[rows])
            curriculum = self._curriculum(settings.epochs)
            data = ArrayData(x, target, None if weight is None else torch.as_tensor(weight))
            parameters = sum(parameter.numel() for parameter in network.parameters())
            bar = Bar(settings.epochs, shown=bool(self.verbose))
            with bar, suitable_threads(parameters, settings.batch_size):
                epochs = train(
                    network,
                    data.subset(rows),
                    settings,
                    curriculum=curriculum,
                    validation=data.subset(held) if len(held) else None,
                    folder=None if self.run_dir is None else Path(self.run_dir),
                    watcher=bar,
                )
        self._keep(network, None if curriculum is None else curriculum.uncertainty)
        self._seed = seed
        chosen = {"epochs": settings.epochs, "batch_size": settings.batch_size, "width": self._recipe.width}
        self.history_ = {"chosen": chosen | {"held_out": len(held), "seed": seed}, "epochs": epochs}
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The most probable label of each row; for several labels a 0/1 matrix."""
        best = self._each_batch(X, self._network_logits).argmax(-1).numpy()
        return best if self._recipe.multilabel else self.classes_[best]

    def predict_proba(self, X: ArrayLike, target_prior: ArrayLike | None = None, *, passes: int = 0) -> Array:
        """Probabilities (rows, classes), or of each attribute being 1, (rows, attributes).

        Args:
            target_prior: the class mix where the model is used, in the order of ``classes_``; Bayes' rule moves the
                probabilities there from the mix they are aimed at. None leaves them.
            passes: average that many stochastic passes instead of one deterministic pass.
        """
        if passes:
            probabilities = self._each_batch(X, lambda x: self._sampled(x, passes).mean(0)).double()
        else:
            probabilities = self._each_batch(X, self._network_logits).double().softmax(-1)
        found = probabilities.numpy()
        if target_prior is not None:
            found = move_prior(found, old=self._aimed_at(), new=self._wanted(target_prior))
        return found[..., 1] if self._recipe.multilabel else found

    def uncertainty(
        self, X: ArrayLike, *, kind: Literal["total", "passes"] = "total", passes: int | None = None
    ) -> Array:
        """How uncertain each prediction is, (rows,), summed over the attributes where there are several.

        Args:
            kind: ``"total"`` is the variance of the predicted label, Σ_c p_c(1 − p_c) with p averaged over the passes;
                ``"passes"`` the part of it by which the passes differ, the trace of the paper's covariance.
            passes: how many; None takes the estimator's own.
        """
        if kind not in ("total", "passes"):
            raise InvalidInputError(f"kind must be 'total' or 'passes', got {kind!r}.")
        drawn = passes or self.passes

        def traces(x: Tensor) -> Tensor:
            sampled = self._sampled(x, drawn).double()
            mean = sampled.mean(0)
            spread = mean * (1 - mean) if kind == "total" else sampled.var(0, correction=0)
            return spread.flatten(1).sum(-1)

        return self._each_batch(X, traces).numpy()

    def save(self, folder: str | Path) -> None:
        """Write the fitted model as ``model.safetensors`` and ``model.json``; nothing in them can run code."""
        check_is_fitted(self)
        parameters = {name: value for name, value in self.get_params().items() if name not in ("backbone", "run_dir")}
        if not isinstance(self.random_state, int):
            parameters["random_state"] = None
        names = getattr(self, "feature_names_in_", None)
        model = SavedModel(
            parameters=parameters,
            custom_backbone=self.backbone is not None,
            classes=self.classes_,
            recipe=self._recipe,
            features=self.network_.head.in_features,
            columns=self.n_features_in_,
            column_names=None if names is None else [str(name) for name in names],
            history=self.history_,
            network=self.network_.state_dict(),
            prior=self._prior,
            uncertainty=None if self.class_uncertainty_ is None else torch.from_numpy(self.class_uncertainty_),
        )
        save_model(Path(folder), model)

    @classmethod
    def load(cls, folder: str | Path, *, backbone: nn.Module | None = None) -> "UncertaintyBalancedClassifier":
        """Read a model written by :meth:`save`; one with a backbone of yours needs that backbone again."""
        model = load_model(Path(folder))
        if model.custom_backbone and backbone is None:
            raise InvalidInputError(f"{folder} was trained with a backbone of its own; pass one like it as backbone=.")
        unknown = set(model.parameters) - set(cls().get_params())
        if unknown:
            raise InvalidInputError(f"{folder} names parameters that this version does not know: {sorted(unknown)}.")
        loaded = cls(backbone=backbone, **model.parameters)
        loaded.classes_, loaded.n_features_in_ = model.classes, model.columns
        if model.column_names is not None:
            loaded.feature_names_in_ = np.array(model.column_names, dtype=object)
        loaded._recipe, loaded._prior, loaded.history_ = model.recipe, model.prior, model.history
        loaded._seed = int(model.history["chosen"]["seed"])
        features = model.recipe.table_backbone() if backbone is None else copy.deepcopy(backbone)
        network = model.recipe.network(features, model.prior, features=model.features)
        try:
            network.load_state_dict(model.network)
        except RuntimeError as error:
            raise InvalidInputError(f"the weights in {folder} do not fit the network: {error}.") from error
        loaded._keep(network, model.uncertainty)
        return loaded

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _curriculum(self, epochs: int) -> Curriculum | None:
        if LOSSES[self.method] is not UncertaintyMarginLoss:
            return None  # L-Softmax and SphereFace have such a head too, with a margin of their own
        return Curriculum(epochs, kind=self.kind, strength=self.strength)

    def _held_out_share(self) -> float:
        fed_back = self.strength == "feedback" and LOSSES[self.method] is UncertaintyMarginLoss
        return self.validation_fraction if fed_back or self.early_stopping else 0.0

    def _settings(self, samples: int, seed: int) -> Settings:
        batch_size = self.batch_size or choose_batch_size(samples)
        return Settings(
            epochs=self.epochs or choose_epochs(samples),
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=seed,
            passes=self.passes,
            patience=self.patience if self.early_stopping else None,
        )

    def _network(self, x: Array, target: Tensor) -> Network:
        """A new network, with the last fit's weights for ``warm_start``."""
        self._recipe = Recipe(
            method=self.method,
            classes=len(self.classes_),
            multilabel=target.ndim > 1,
            dropout=self.dropout,
            form=self.form,
            sample_level=self.sample_level,
            columns=x.shape[1],
            width=self.width or choose_width(len(x)),
        )
        counts = class_counts(target, len(self.classes_))
        self._prior = counts.double() / counts.sum(-1, keepdim=True)
        network = self._recipe.new_network(x, counts, self.backbone)
        if self.warm_start and hasattr(self, "network_"):
            before = dict(self.network_.named_parameters())
            try:
                network.load_state_dict(before, strict=False)
            except RuntimeError as error:
                raise InvalidInputError(f"warm_start needs the last fit's classes and columns: {error}.") from error
        return network

    def _keep(self, network: Network, uncertainty: Tensor | None) -> None:
        self.network_ = network.eval().cpu()
        head = network.head
        self.class_uncertainty_: Any = None if uncertainty is None else uncertainty.numpy()
        self.margins_: Any = head.margins.numpy() if isinstance(head, UncertaintyMarginLoss) else None

    def _each_batch(self, X: ArrayLike, answer: Callable[[Tensor], Tensor]) -> Tensor:
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float32, allow_nd=self.backbone is not None, reset=False)
        parts = (torch.tensor(x[start : start + ROWS_AT_ONCE]) for start in range(0, len(x), ROWS_AT_ONCE))
        with torch.no_grad():
            return torch.cat([answer(part) for part in parts])

    def _network_logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network_(x)
        return logits

    def _sampled(self, x: Tensor, passes: int) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed)
        return mc_dropout(self.network_, x, passes, generator).softmax(-1)

    def _aimed_at(self) -> Array:
        """The class mix which the probabilities assume."""
        prior = self._prior.numpy()
        return prior if self.method in KEEP_TRAINING_PRIOR else np.full_like(prior, 1 / prior.shape[-1])

    def _wanted(self, target_prior: ArrayLike) -> Array:
        """For several labels the share of each attribute's ones is enough."""
        wanted = np.asarray(target_prior, dtype=np.float64)
        pairs = self._recipe.multilabel and wanted.shape == self._prior.shape[:1]
        return np.stack((1 - wanted, wanted), axis=-1) if pairs else wanted
