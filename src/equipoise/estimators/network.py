"""The scikit-learn face: ``UncertaintyBalancedClassifier().fit(X, y)``."""

import copy
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from equipoise.calibration import estimate_prior
from equipoise.calibration.calibrated import Calibrated
from equipoise.data.images import Images
from equipoise.data.labels import class_counts, encode_labels, label_indices, plain_array, plain_labels
from equipoise.data.samples import rows_of
from equipoise.errors import InvalidInputError
from equipoise.estimators.fitted_network import Fitted
from equipoise.estimators.persistence import SavedModel, load_model, save_model
from equipoise.losses import LossBuilder, loss_builder
from equipoise.losses.uncertainty_margin import Form, SampleLevel
from equipoise.models import ImageBackbone
from equipoise.names import Precision
from equipoise.tensors import new_tensor
from equipoise.training import ArrayData, Bar, Curriculum, Network, Recipe, Settings, train
from equipoise.training.batches import relative_weights
from equipoise.training.curriculum import StrengthRule
from equipoise.training.settings import (
    choose_batch_size,
    choose_length,
    choose_width,
    hold_out,
    suitable_threads,
)
from equipoise.uncertainty.classes import MarginRule, UncertaintyKind

Array = NDArray[Any]
CalibrationRule = Literal["held_back", "validation", "none"]
Probabilities = Literal["natural", "balanced"]


def _plain(value: Any) -> Any:
    """A parameter as JSON: numpy's numbers as Python's, and nothing for what is no plain value."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else None


def _table(X: Any) -> Any:
    """X as it came, if it has rows and loses nothing as a numpy array."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) < 2:
        raise InvalidInputError(
            f"X must have rows and columns, got the shape {shape}. Reshape your data: X.reshape(-1, 1) for a single "
            "column, X.reshape(1, -1) for a single row."
        )
    return plain_array(X, "X")


def _cuda_devices() -> list[int]:
    return [torch.cuda.current_device()] if torch.cuda.is_available() else []


class UncertaintyBalancedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural classifier for imbalanced data: uncertainty decides how much room each class and sample gets.

    Parameters
    ----------
    method : a name of ``equipoise.losses.LOSSES``, or a function that builds a loss as those do; the default,
        ``uncertainty_margin``, is Equipoise.
    backbone : any ``nn.Module`` from X to features of shape (batch, D), of which a copy is trained. None takes the
        paper's network: standardised columns, two hidden layers, dropout.
    form, sample_level : of ``UncertaintyMarginLoss``.
    epochs : how often all samples are visited, with a warning where that leaves the class stage too few optimiser
        steps. None takes enough steps for small data and not too many for large data, in 30 epochs, of which each is
        several visits or a part of the samples; a few visits of large data are divided into epochs as well.
    width, batch_size : None chooses from the size of the data; ``history_["chosen"]`` says what.
    learning_rate, weight_decay : of AdamW, whose rate decays to 0 along a cosine.
    dropout : share dropped between the hidden layers and before the class vectors.
    passes : stochastic passes for the uncertainty of classes and samples.
    kind, m_max, rule : how margins follow from class uncertainty, see ``Curriculum``.
    strength : how strong the margins are, see ``Curriculum``: ``"uncertainty"`` needs no held-out samples,
        ``"feedback"`` measures it on them; a number is that strength. ``"head"`` brings in the margins of a method such
        as ``"arcface"`` by stages, spread over the classes by their uncertainty, or with ``kind=None`` as they are.
    held_back : share of the training samples which the first two stages leave out, to measure on them what predictions
        still lack; the last stage trains on all. 0 corrects nothing.
    calibration : which samples tell how far the probabilities can be believed. ``"held_back"``: those which the first
        two stages leave out, at no cost (methods without stages stay as they are); ``"validation"``: a share of
        ``validation_fraction`` that no epoch sees, which abstention needs (and which chooses nothing: not together with
        ``early_stopping`` or ``strength="feedback"``); ``"none"``.
    probabilities : which class mix ``predict_proba`` holds at. ``"natural"``: that of the training samples; for
        probabilities to act on, as they are. ``predict`` may then name another class than the most probable one.
        ``"balanced"``: all classes equally common, and ``predict`` is the argmax, whatever the method; for compositions
        that decide by the probabilities themselves, such as ``VotingClassifier(voting="soft")``, stacking or
        ``cross_val_predict(method="predict_proba").argmax(1)``, which would lose a rare class otherwise.
    validation_fraction : share of the training samples held out, stratified, for ``strength="feedback"``, for
        ``early_stopping`` and for ``calibration="validation"``; without these every sample trains.
    early_stopping, patience : stop when balanced accuracy on the held-out samples has not improved for ``patience``
        epochs, and keep the best epoch's weights.
    precision : ``"bf16"`` or ``"fp16"`` trains in mixed precision, for a GPU; the head stays in float32.
    warm_start : start from the weights of the last fit.
    run_dir : a folder for ``metrics.jsonl`` and checkpoints; a fit that was interrupted there goes on.
    verbose : 1 shows a progress bar on a terminal.
    random_state : seed; the same seed gives the same weights.

    Attributes
    ----------
    classes_ : the labels, or 0 to K - 1 for K attributes.
    class_uncertainty_, margins_ : one a class, (classes,) or (attributes, 2); None for methods without them.
    prior_ : the training samples' class mix by their weights, (classes,) or (attributes, 2), at which probabilities are
        given.
    calibrated_ : what turns the network's logits into probabilities and sets of labels.
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
        method: str | LossBuilder = "uncertainty_margin",
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
        kind: UncertaintyKind | None = "unresolved",
        m_max: float = 3.0,
        rule: MarginRule = "log",
        strength: StrengthRule | float = "uncertainty",
        held_back: float = 0.1,
        calibration: CalibrationRule = "held_back",
        probabilities: Probabilities = "natural",
        validation_fraction: float = 0.1,
        early_stopping: bool = False,
        patience: int = 10,
        precision: Precision = "no",
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
        self.m_max = m_max
        self.rule = rule
        self.strength = strength
        self.held_back = held_back
        self.calibration = calibration
        self.probabilities = probabilities
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.patience = patience
        self.precision = precision
        self.warm_start = warm_start
        self.run_dir = run_dir
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: ArrayLike | Images, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "UncertaintyBalancedClassifier":
        """Fit to X (samples, columns), with a backbone (samples, ...) or images, and to y: labels (samples,), or a 0/1
        matrix (samples, attributes).

        ``sample_weight``, (samples,), says how much each counts: a row of twice the weight is two rows to the loss, the
        class counts, the class uncertainty, the correction, the calibration and ``prior_``. Only ratios matter; a row
        of weight 0 is left out.
        """
        loss_builder(self.method)
        self._check_together()
        x, labels = self._samples(X, y)
        classes, target = encode_labels(labels)
        weight = self._relative_weights(sample_weight, x)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        recipe = self._new_recipe(x, classes, target)
        data = ArrayData(x, target, weight)
        rows, held = self._divided(data, recipe, seed)
        fitted, held_out = data.subset(rows), data.subset(held) if len(held) else None
        settings = self._settings(len(rows), seed)
        counts = class_counts(fitted.y, len(classes), fitted.weight)
        staged = recipe.uncertain or self.strength == "head"
        curriculum = self._curriculum(settings.epochs) if staged else None
        with torch.random.fork_rng(devices=_cuda_devices()):  # the caller's random numbers are not ours to use up
            torch.manual_seed(seed)
            network = recipe.new_network(x, counts, self.backbone, weight)
            if self.warm_start and hasattr(self, "network_"):
                self._take_weights(network, classes)
            bar = Bar(settings.epochs, shown=bool(self.verbose))
            parameters = sum(parameter.numel() for parameter in network.parameters())
            with bar, suitable_threads(parameters, settings.batch_size):
                epochs = train(
                    network,
                    fitted,
                    settings,
                    curriculum=curriculum,
                    validation=held_out,
                    folder=self.run_dir,
                    watcher=bar,
                )
        # only now: a fit that fails leaves the last one as it was
        self.classes_, self._recipe, self._seed = classes, recipe, seed
        self._keep(network, None if curriculum is None else curriculum.uncertainty)
        scaling = curriculum.scaling if curriculum is not None and self.calibration != "none" else None
        self.calibrated_ = Calibrated.of_loss(network.head, counts, scaling)
        if held_out is not None and self.calibration != "none":
            logits = Fitted(network, classes, self.calibrated_, seed).logits(x[held.numpy()])
            chosen_by = self.early_stopping or self.strength == "feedback"
            self.calibrated_ = self.calibrated_.fitted(
                logits, held_out.y, sample_weight=held_out.weight, unseen=not chosen_by
            )
        chosen = {"epochs": settings.epochs, "epoch_batches": settings.epoch_batches, "width": recipe.width}
        chosen |= {"batch_size": settings.batch_size, "steps": sum(record["steps"] for record in epochs)}
        self.history_ = {"chosen": chosen | {"held_out": len(held), "seed": seed}, "epochs": epochs}
        return self

    def _curriculum(self, epochs: int) -> Curriculum:
        return Curriculum(
            epochs,
            kind=self.kind,
            m_max=self.m_max,
            rule=self.rule,
            strength=self.strength,
            held_back=self.held_back,
        )

    def predict(
        self, X: ArrayLike | Images, *, target_prior: ArrayLike | None = None, abstain: float | None = None
    ) -> Array:
        """The label of each row; for several labels a 0/1 matrix.

        It is the most probable one, by the calibrated probabilities, at the class mix which the method aims at: for the
        default method if all classes were equally common, which is what margins are for. A rare class is named where
        the sample speaks for it, though a common one may be more probable. Plain cross-entropy aims at the training
        samples' mix.

        Args:
            target_prior: the class mix where the model is used: the most probable label there.
            abstain: the share of each class that may get a wrong label. Rows for which more than one class remains
                possible at that level are masked in the answer, a ``numpy.ma.MaskedArray``.
        """
        fitted, x = self._ready(X)
        logits, prior = fitted.logits(x), self._decision_prior(target_prior)
        if abstain is None:
            return fitted.predict(logits, prior)
        answer: Array = fitted.predict_or_abstain(logits, prior, abstain)
        return answer

    def predict_proba(self, X: ArrayLike | Images, target_prior: ArrayLike | None = None, *, passes: int = 0) -> Array:
        """Probabilities (rows, classes), or of each attribute being 1, (rows, attributes).

        They are calibrated, and hold where the classes are as common as among the training samples, or with
        ``probabilities="balanced"`` if all were equally common.

        Args:
            target_prior: the class mix where the model is used, in the order of ``classes_``, if it is another; Bayes'
                rule moves the probabilities there. :meth:`estimate_prior` finds it from samples without labels.
            passes: average that many stochastic passes instead of one deterministic pass.
        """
        fitted, x = self._ready(X)
        found = fitted.probabilities(x, self._decision_prior(target_prior), passes=passes)
        return found[..., 1] if fitted.multilabel else found

    def prediction_sets(self, X: ArrayLike | Images, level: float = 0.9) -> NDArray[np.bool_]:
        """Which labels cannot be ruled out, (rows, classes), or 0 and 1 of each attribute, (rows, attributes, 2).

        Of the samples of each class, however rare, at least a share of ``level`` has it among them. The class that
        :meth:`predict` names is always among them, so no row is without one. A class that was calibrated on fewer than
        level / (1 - level) samples is never ruled out.
        """
        fitted, x = self._ready(X)
        return fitted.calibrated.sets(fitted.logits(x), level, self._decision_prior(None))

    def estimate_prior(self, X: ArrayLike | Images) -> Array:
        """The class mix of samples without labels, for ``target_prior``: by EM (Saerens et al. 2002).

        As if one sample more of each class had been seen, so that a few rows rule no class out.
        """
        fitted, x = self._ready(X)
        return estimate_prior(fitted.probabilities(x), old=self.calibrated_.prior.numpy(), smoothing=1)

    def calibrate(
        self, X: ArrayLike | Images, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "UncertaintyBalancedClassifier":
        """Calibrate probabilities and sets of labels anew, on labelled samples X, y that were not trained on.

        ``sample_weight``, (samples,), says how much each counts for the probabilities; for the sets all count alike.
        """
        fitted, x = self._ready(X)
        labels = check_array(plain_labels(y), ensure_2d=False, dtype=None, input_name="y")
        check_consistent_length(x, labels)
        target = torch.from_numpy(label_indices(labels, self.classes_, multilabel=fitted.multilabel))
        weight = self._relative_weights(sample_weight, x)
        self.calibrated_ = self.calibrated_.fitted(fitted.logits(x), target, sample_weight=weight)
        return self

    def uncertainty(
        self,
        X: ArrayLike | Images,
        *,
        target_prior: ArrayLike | None = None,
        kind: Literal["total", "passes"] = "total",
        passes: int | None = None,
    ) -> Array:
        """How uncertain each prediction is, (rows,), summed over the attributes where there are several.

        Args:
            target_prior: the class mix where the model is used, as for :meth:`predict`.
            kind: ``"total"`` is the variance of the predicted label, Σ_c p_c(1 − p_c), where p are the probabilities
                that decide it, averaged over dropout on the last features in closed form; it is what ``equipoise
                predict``, reports and exported models say as well. ``"passes"`` is what stochastic passes differ by,
                the trace of the paper's covariance.
            passes: how many, for ``"passes"``; None takes the estimator's own.
        """
        if kind not in ("total", "passes"):
            raise InvalidInputError(f"kind must be 'total' or 'passes', got {kind!r}.")
        if passes is not None and kind == "total":
            raise InvalidInputError(f"kind='total' needs no passes, got passes={passes!r}; leave it out.")
        fitted, x = self._ready(X)
        prior = self._decision_prior(target_prior)
        if kind == "total":
            return fitted.uncertainty(x, prior)
        return fitted.disagreement(x, prior, passes=self.passes if passes is None else passes)

    def save(self, folder: str | Path) -> None:
        """Write the fitted model into a ``folder`` as ``model.safetensors`` and ``model.json``; nothing in them can run
        code.
        """
        check_is_fitted(self)
        if not isinstance(self.method, str):
            raise InvalidInputError(
                "a loss without a name cannot be saved; add it to equipoise.losses.LOSSES and fit with that name."
            )
        parameters = {name: _plain(value) for name, value in self.get_params().items()}
        parameters = {name: value for name, value in parameters.items() if name not in ("backbone", "run_dir")}
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
            calibrated=self.calibrated_,
            uncertainty=None if self.class_uncertainty_ is None else torch.from_numpy(self.class_uncertainty_),
        )
        save_model(Path(folder), model)

    @classmethod
    def load(cls, folder: str | Path, *, backbone: nn.Module | None = None) -> "UncertaintyBalancedClassifier":
        """Read a model written by :meth:`save` from its ``folder``; one with a ``backbone`` of yours needs it again."""
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
        loaded._recipe, loaded.calibrated_, loaded.history_ = model.recipe, model.calibrated, model.history
        loaded._seed = int(model.history["chosen"]["seed"])
        features = model.recipe.table_backbone() if backbone is None else copy.deepcopy(backbone)
        network = model.recipe.network(features, model.calibrated.prior, features=model.features)
        try:
            network.load_state_dict(model.network)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip().rstrip(".")  # torch's first line names its own classes
            raise InvalidInputError(
                f"the weights in {folder} do not fit the network: {reason}; was it saved by another version?"
            ) from error
        loaded._keep(network, model.uncertainty)
        return loaded

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _samples(self, X: Any, y: Any) -> tuple[Array | Images, Array]:
        """X and y for :meth:`fit`, checked; images stay where they are."""
        y = plain_labels(y)
        if not rows_of(X).from_files:
            checks = {"multi_output": True, "ensure_min_samples": 2, "dtype": self._dtypes(X)}
            x, labels = validate_data(self, _table(X), y, allow_nd=self.backbone is not None, **checks)
            return x, labels
        labels = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        check_consistent_length(X, labels)
        self.n_features_in_ = X.shape[1]  # channels
        return X, labels

    def _rows(self, X: Any) -> Any:
        """X for prediction, checked against what was fitted."""
        if not rows_of(X).from_files:
            return validate_data(
                self, _table(X), dtype=self._dtypes(X), allow_nd=self.backbone is not None, reset=False
            )
        if X.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"the model was fitted to images of {self.n_features_in_} channels, got {X.shape[1]}; read them with "
                f"channels={self.n_features_in_}."
            )
        return X

    def _dtypes(self, X: Any) -> Any:
        """What X may stay or must become.

        Tables are standardised in float64, and keep float32 only where it holds their values exactly. Image backbones
        scale bytes themselves, so that images take a quarter of the memory.
        """
        if self.backbone is not None:
            return (np.float32, np.uint8) if isinstance(self.backbone, ImageBackbone) else np.float32
        given = getattr(X, "dtype", None)
        exact = isinstance(given, np.dtype) and np.can_cast(given, np.float32)
        return np.float32 if exact else np.float64

    def _check_together(self) -> None:
        """Options that need one another, before any of them costs time."""
        if self.run_dir is not None and self.random_state is None:
            raise InvalidInputError("run_dir resumes a fit only with the same seed; set random_state as well.")
        if not 0 <= self.validation_fraction < 1:
            raise InvalidInputError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction}.")
        if self.calibration not in get_args(CalibrationRule):
            raise InvalidInputError(
                f"calibration must be one of {', '.join(get_args(CalibrationRule))}, got {self.calibration!r}."
            )
        self._check_probabilities()
        for name, asked in (
            ("early_stopping", self.early_stopping),
            ("strength", self.strength == "feedback"),
            ("calibration", self.calibration == "validation"),
        ):
            if asked and self.validation_fraction == 0:
                raise InvalidInputError(
                    f"{name}={getattr(self, name)!r} needs held-out samples; set validation_fraction above 0."
                )

    @staticmethod
    def _relative_weights(sample_weight: ArrayLike | None, x: Array | Images) -> Tensor | None:
        given = plain_array(sample_weight, "sample_weight")
        if given is None:
            return None
        return relative_weights(new_tensor(_check_sample_weight(given, x, dtype=np.float64)))

    def _divided(self, data: ArrayData, recipe: Recipe, seed: int) -> tuple[Tensor, Tensor]:
        """Rows to train on and rows held out; one of weight 0 is neither."""
        counted = torch.arange(len(data)) if data.weight is None else data.weight.nonzero().squeeze(-1)
        rows, held = hold_out(data.y[counted], self._held_out_share(recipe), seed=seed)
        return counted[rows], counted[held]

    def _held_out_share(self, recipe: Recipe) -> float:
        fed_back = self.strength == "feedback" and recipe.uncertain
        wanted = fed_back or self.early_stopping or self.calibration == "validation"
        return self.validation_fraction if wanted else 0.0

    def _settings(self, samples: int, seed: int) -> Settings:
        batch_size = choose_batch_size(samples) if self.batch_size is None else self.batch_size
        length = choose_length(samples, batch_size, self.epochs)
        return Settings(
            epochs=length.epochs,
            epoch_batches=length.epoch_batches,
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=seed,
            passes=self.passes,
            patience=self.patience if self.early_stopping else None,
            precision=self.precision,
        )

    def _new_recipe(self, x: Array | Images, classes: Array, target: Tensor) -> Recipe:
        return Recipe(
            method=self.method,
            classes=len(classes),
            multilabel=target.ndim > 1,
            dropout=self.dropout,
            form=self.form,
            sample_level=self.sample_level,
            columns=x.shape[1],
            width=choose_width(len(x)) if self.width is None else self.width,
        )

    def _take_weights(self, network: Network, classes: Array) -> None:
        """The last fit's weights, for ``warm_start``."""
        same = classes.tolist() == self.classes_.tolist()
        before = dict(self.network_.named_parameters())
        now = dict(network.named_parameters())
        if not same or {k: v.shape for k, v in before.items()} != {k: v.shape for k, v in now.items()}:
            raise InvalidInputError(
                "warm_start needs the last fit's classes, columns and width; turn it off for others."
            )
        network.load_state_dict(before, strict=False)

    def _keep(self, network: Network, uncertainty: Tensor | None) -> None:
        self.network_ = network.eval().cpu()
        head = network.head
        self.class_uncertainty_: Any = None if uncertainty is None else uncertainty.numpy()
        self.margins_: Any = None if head.margins is None else head.margins.numpy()

    def _decision_prior(self, target_prior: ArrayLike | None) -> ArrayLike | None:
        """The class mix of the decision; None is the one which the method aims at."""
        self._check_probabilities()
        if target_prior is None and self.probabilities == "balanced":
            return self.calibrated_.balanced()
        return target_prior

    def _check_probabilities(self) -> None:
        if self.probabilities not in get_args(Probabilities):
            raise InvalidInputError(
                f"probabilities must be one of {', '.join(get_args(Probabilities))}, got {self.probabilities!r}."
            )

    def _ready(self, X: ArrayLike | Images) -> tuple[Fitted, Any]:
        """What answers, and rows checked against what was fitted."""
        check_is_fitted(self)
        return Fitted(self.network_, self.classes_, self.calibrated_, self._seed), self._rows(X)

    @property
    def prior_(self) -> Array:
        found: Array = self.calibrated_.prior.numpy()
        return found
