"""The paper's progressive training: softmax, then the class level, then the sample level."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from equipoise.calibration.scaling import Scaling, fit_scaling
from equipoise.data.labels import class_counts
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import ClassVectorLoss
from equipoise.options import Option, check_choice, is_number
from equipoise.registry_names import MarginRule, MarginSource
from equipoise.training.loader_samples import LoaderSamples
from equipoise.training.margin_strength import BY_COUNTS, angular_strength, class_steps, lacking_shift, sure_shift
from equipoise.training.measurements import MeasuredSamples
from equipoise.training.mixing import POWER, partner_prior
from equipoise.training.network_recipe import head_logits
from equipoise.training.stages import CLASS_LEVEL, SAMPLE_LEVEL, SOFTMAX, Stage, Stages
from equipoise.training.watchers import Record
from equipoise.uncertainty.class_level import UncertaintyKind
from equipoise.uncertainty.margins import margins_from_uncertainty

StrengthRule = Literal["uncertainty", "feedback", "head"]
MixingStage = Literal["class", "sample"]


class Curriculum(Stages):
    """Drive a head with margins through the three stages, in any training loop.

    A loop of your own needs two calls: :meth:`start` before it, and :meth:`end_epoch` after every epoch.

    Class uncertainty is estimated once, at the end of the softmax stage, and kept: later estimates would respond to
    their own effect. Margins and their strength follow from it, without class counts or hyperparameters: the logit of
    class c is lowered by log(u_c / min u), a margin that grows over the first sixth of the epochs after that stage.

    Once the network fits the training set, margins have no further effect, yet rare classes are still missed too often.
    So the first two stages leave out a tenth of the samples. At the end of the class stage, these show by how much the
    predictions still have to be shifted along log(u / min u); they are shifted from then on, and the sample stage
    trains on all samples. The same samples calibrate the probabilities: ``scaling``, None until then.

    Args:
        epochs: total number of epochs.
        softmax, class_level, sample_level: share of the epochs per stage, by default a sixth, half and a third; a
            whole number (``sample_level=10``) counts epochs. The softmax stage takes what rounding leaves, and at least
            one epoch.
        kind, m_max, rule: how margins follow from uncertainty, see ``class_uncertainty`` and
            ``margins_from_uncertainty``. With ``strength="head"`` a ``kind`` of None leaves the margins unchanged.
        margins: source of the margins: ``"uncertainty"`` alone; class ``"counts"``, ln(max n / n_c); ``"corrected"``,
            counts corrected by uncertainty beyond its standard error; or ``"out_of_fold"``, which trains like counts,
            and you add :func:`equipoise.training.margin_strength.class_shift` to the predictions. The counts are
            those of the loss.
        strength: ``"uncertainty"``, the rule above: as strong as ``margins`` say. ``"feedback"``: after every epoch
            from the end of the softmax stage on, ``feedback`` times the shift that held-out samples lack is added.
            ``"head"``, for heads with margins of their own such as ``am_softmax`` and ``l_softmax``: rises over the
            class stage from none to the margin and strength that the head was built with. A number: that strength,
            from the first epoch of the class stage on.
        feedback: share of that shift that is added, in (0, 1].
        held_back: share of each class that the first two stages leave out; very small classes are not held back.
            Nothing is corrected with 0, if a stage is empty, or with ``strength="head"``.
        from_start: apply margins by counts, which are known before training, at full strength from the first epoch, and
            mix samples from there on. The class stage then includes the softmax stage; class uncertainty is still
            measured at the end of the latter.
        mix_from: the stage from which samples are mixed, for a loss whose sample level is ``"mixing"``.
        partner_power: how partners' classes are drawn, see :func:`equipoise.training.mixing.partner_prior`.
    """

    def __init__(
        self,
        epochs: int,
        *,
        softmax: float = SOFTMAX,
        class_level: float = CLASS_LEVEL,
        sample_level: float = SAMPLE_LEVEL,
        kind: UncertaintyKind | None = "unresolved",
        m_max: float = 3.0,
        rule: MarginRule = "log",
        margins: MarginSource = "uncertainty",
        strength: StrengthRule | float = "uncertainty",
        feedback: float = 0.5,
        held_back: float = 0.1,
        from_start: bool = False,
        mix_from: MixingStage = "class",
        partner_power: float = POWER,
    ) -> None:
        super().__init__(epochs, softmax, class_level, sample_level, from_start=from_start)
        if kind is not None or strength != "head":
            check_choice("kind", kind, get_args(UncertaintyKind))
        if strength not in get_args(StrengthRule) and not (is_number(strength) and 0 < float(strength) < math.inf):
            raise InvalidInputError(
                f"strength must be one of {', '.join(get_args(StrengthRule))}, or a number above 0, got {strength!r}."
            )
        check_choice("margins", margins, get_args(MarginSource))
        check_choice("mix_from", mix_from, get_args(MixingStage))
        Option(least=0, most=1).check("partner_power", partner_power)
        Option(above=0, most=1).check("feedback", feedback)
        Option(above=1).check("m_max", m_max)
        Option(least=0, below=1).check("held_back", held_back)
        self.kind, self.m_max, self.rule = kind, m_max, rule
        if from_start and (margins not in BY_COUNTS or strength != "uncertainty"):
            raise InvalidInputError(
                f"from_start needs margins that are known before training, got margins={margins!r} and "
                f"strength={strength!r}; use margins='counts' and strength='uncertainty'."
            )
        self.strength, self.feedback, self.held_back = strength, feedback, float(held_back)
        self.margins, self.mix_from, self.partner_power = margins, mix_from, float(partner_power)
        self.uncertainty: Tensor | None = None
        self.scaling: Scaling | None = None
        self.epoch, self._started = 0, False  # the current one, and whether a loss was set for it
        self.angle = 1.0  # strength of the angular form that shifts logits as far as 1 of the additive form

    def start(self, loss: ClassVectorLoss) -> None:
        """Set ``loss`` for the first epoch, or after :meth:`load_state_dict` for the epoch where training stopped."""
        self._started = False
        self.start_epoch(self.epoch, loss)

    def start_epoch(self, epoch: int, loss: ClassVectorLoss) -> Stage:
        """Set the strengths of the class and the sample level of ``loss`` for an epoch, and return its stage."""
        stage, first = self.stage(epoch), not self._started
        self.epoch, self._started = epoch, True
        loss.set_progress(epoch / self.epochs)
        if stage == "softmax":
            loss.clear_margins()
            return stage
        if self.uncertainty is None and self.kind is not None and not self.from_start:
            raise InvalidStateError(
                f"epoch {epoch} is in stage {stage!r} but no class uncertainty is set; call set_uncertainty at the end "
                f"of epoch {self.class_start - 1}."
            )
        if self.from_start and first:
            loss.margins = self._margins(loss)
        loss.set_strength(self._strength_of(loss, epoch), sample_strength=1.0 if stage == "sample" else 0.0)
        return stage

    def end_epoch(
        self,
        model: nn.Module,
        loss: ClassVectorLoss,
        loader: Iterable[Any],
        *,
        held_out: Iterable[Any] | None = None,
        passes: int = 10,
        cap: int = 200,
        seed: int = 0,
    ) -> Record:
        """Take the measurements due after an epoch of your own training loop, and set ``loss`` for the next one.

        Class uncertainty is measured after the last epoch of the softmax stage, the correction after the last epoch of
        the class stage. Epochs are counted here; the count is part of :meth:`state_dict`.

        Args:
            model: inputs -> features (batch, D): the loop trains ``loss(model(x), y)``. Its mode is not changed.
            loss: the head with margins.
            loader: batches of training samples, (x, y), (x, y, weight) or a dict with ``"labels"``. Do not oversample:
                that would hide what is measured.
            held_out: batches of samples that are not trained on before the sample stage, for the correction and for
                ``strength="feedback"``; None corrects nothing.
            passes: stochastic passes for the class uncertainty.
            cap: maximum number of samples per class that it is measured on.
            seed: seed of the dropout masks.

        Returns:
            The ``epoch`` and ``stage`` that ended, the ``strength`` of its margins, and the ``shift`` of a correction.

        >>> from equipoise.losses import UncertaintyMarginLoss
        >>> _ = torch.manual_seed(0)
        >>> model, loss = nn.Linear(4, 8), UncertaintyMarginLoss(8, 2, dropout=0.5)
        >>> batches = [(torch.randn(10, 4), torch.tensor([0] * 9 + [1]))]
        >>> curriculum = Curriculum(epochs=2)
        >>> curriculum.start(loss)
        >>> curriculum.end_epoch(model, loss, batches)
        {'epoch': 0, 'stage': 'softmax', 'strength': 0.0}
        >>> loss.margins  # from here on
        tensor([1., 3.])
        """
        epoch = self.epoch
        if not self._started:
            raise InvalidStateError("the curriculum has not started; call start(loss) before the first step.")
        if epoch >= self.epochs:
            raise InvalidStateError(f"all {epoch} epochs of the curriculum have ended; build it with more epochs.")
        if self.strength == "feedback" and held_out is None:
            raise InvalidInputError("strength='feedback' is measured on held-out samples; pass held_out.")
        samples = LoaderSamples(model, loss, loader, held_out, passes=passes, cap=cap, seed=seed)
        record: Record = {"epoch": epoch, "stage": self.stage(epoch), **self.measure(epoch, loss, samples)}
        self.epoch = epoch + 1
        if self.epoch < self.epochs:
            self.start_epoch(self.epoch, loss)
        return record

    def measure(self, epoch: int, loss: ClassVectorLoss, samples: MeasuredSamples) -> dict[str, float]:
        """Take the measurements due after an ``epoch``, set ``loss``, and return fields for the epoch's record.

        Args:
            epoch: the epoch that ended, counted from 0.
            loss: its margins, shift and strength are set.
            samples: source of the measurements.
        """
        record: dict[str, float] = {}
        if self.wants_correction(epoch) and (unseen := samples.for_correction()) is not None:
            record["shift"] = self.correct(loss, *unseen)
        record["strength"] = float(loss.strength)
        if self.kind is not None and self.wants_uncertainty(epoch):
            with self.at_training_prior(loss):
                found = samples.class_uncertainty(self.kind)
            self.set_uncertainty(found, loss)
        if self.wants_features(epoch, loss):
            self.adapt(loss, *samples.for_strength())
        return record

    @contextmanager
    def at_training_prior(self, loss: ClassVectorLoss) -> Iterator[None]:
        """Within the block, make ``loss`` predict at the training samples' class prior, as it does without margins.

        >>> from equipoise.losses import UncertaintyMarginLoss
        >>> loss = UncertaintyMarginLoss(2, 2, class_counts=[30, 10])
        >>> with Curriculum(epochs=6, margins="counts", held_back=0, from_start=True).at_training_prior(loss):
        ...     loss.shift.exp()  # three times as many
        tensor([3., 1.])
        """
        if not self.from_start:
            yield
            return
        before, steps = loss.shift, self._steps(loss)
        loss.shift = steps.amax(-1, keepdim=True) - steps  # log(n_c / min n)
        try:
            yield
        finally:
            loss.shift = before

    def _mixes(self, epoch: int, loss: ClassVectorLoss) -> bool:
        start = self.margin_start if self.mix_from == "class" else self.sample_start
        return loss.mixes_samples and epoch >= start

    def partners(self, epoch: int, loss: ClassVectorLoss) -> Tensor | None:
        """Return the class distribution of mixing partners in an ``epoch``, (classes,); None if nothing is mixed.

        >>> from equipoise.losses import UncertaintyMarginLoss
        >>> counts = torch.tensor([90, 10])
        >>> loss = UncertaintyMarginLoss(4, 2, sample_level="mixing", class_counts=counts)
        >>> curriculum = Curriculum(6, margins="counts")
        >>> curriculum.partners(0, loss), curriculum.partners(1, loss)
        (None, tensor([0.7500, 0.2500], dtype=torch.float64))
        """
        if not self._mixes(epoch, loss):
            return None
        return partner_prior(self._steps(loss).neg().softmax(-1), self.partner_power)

    def _steps(self, loss: ClassVectorLoss) -> Tensor:
        """Return by how much the logit of each class is lowered."""
        return class_steps(self.margins, self.uncertainty, loss.class_counts)

    def _margins(self, loss: ClassVectorLoss) -> Tensor:
        least, most = loss.margin_range if self.strength == "head" else (1.0, self.m_max)
        relative = self.uncertainty
        if relative is None or self.margins != "uncertainty":
            relative = self._steps(loss).exp()  # what log(u / min u) was taken of
        return margins_from_uncertainty(relative, most, self.rule, m_min=least)

    def _strength_of(self, loss: ClassVectorLoss, epoch: int) -> float:
        if self.strength == "feedback":
            return float(loss.strength)  # as set after the last epoch
        if self.strength == "head":
            return self.ramp(epoch) * loss.own_strength
        if self.strength == "uncertainty":  # s·(m − 1) = log(u/min u) at the most uncertain class
            widest = float(self._steps(loss).amax())
            return self.ramp(epoch) * self.angle * (widest / (self.m_max - 1))
        return float(self.strength)

    def ramp(self, epoch: int) -> float:
        """Return the share of the full strength in an ``epoch``.

        It rises over the first sixth of the epochs after the softmax stage, or over the class stage with
        ``strength="head"``.
        """
        if self.from_start:
            return 1.0
        sixth, stage = (self.epochs - self.class_start) // 6, self.sample_start - self.class_start
        return min(1.0, max(0, epoch - self.class_start + 1) / max(1, stage if self.strength == "head" else sixth))

    def wants_uncertainty(self, epoch: int) -> bool:
        """Return whether the class uncertainty is due after this ``epoch``, the last of the softmax stage."""
        return epoch == self.class_start - 1 and self.class_start < self.epochs and self.kind is not None

    def wants_features(self, epoch: int, loss: ClassVectorLoss) -> bool:
        """Return whether :meth:`adapt` has anything to do for ``loss`` after this epoch."""
        in_time = self.class_start - 1 <= epoch < self.epochs - 1
        return in_time and (self.strength == "feedback" or (self.strength == "uncertainty" and loss.angular))

    @property
    def rejoin_epoch(self) -> int:
        """The epoch in which held-back samples join: that of the sample level, or 0 if none are held back."""
        three_stages = self.class_start < self.sample_start < self.epochs
        return self.sample_start if self.held_back > 0 and three_stages and self.strength != "head" else 0

    def wants_correction(self, epoch: int) -> bool:
        """Return whether the ``epoch`` that just ended is the last before held-back samples join."""
        return epoch == self.rejoin_epoch - 1

    def correct(
        self, loss: ClassVectorLoss, features: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> float:
        """Correct predictions on held-back samples, and return the shift in units of log(u / min u).

        Margins by counts are known, not estimated, and get no correction: it would trade precision for recall. The
        ``scaling`` of probabilities is fitted on the same samples.

        Args:
            loss: its ``shift`` is set.
            features: (batch, D), from the model in eval mode.
            target: (batch,), or (batch, attributes).
            sample_weight: number of samples that each counts as, (batch,); None counts each once.
        """
        if self.uncertainty is None:
            raise InvalidStateError("no margins to correct yet; call set_uncertainty first.")
        direction = self._steps(loss).to(features.device)
        with torch.no_grad():
            logits = head_logits(loss, features) - loss.shift
        lacking = 0.0
        if self.margins not in BY_COUNTS:
            lacking = sure_shift(logits, target, direction, sample_weight=sample_weight)
        loss.shift = lacking * direction
        counts = class_counts(target, logits.shape[-1], sample_weight)
        self.scaling = fit_scaling(  # the last stage makes the network more confident
            logits + loss.shift, target, counts, sharpen=False, sample_weight=sample_weight
        )
        return lacking

    def set_uncertainty(self, uncertainty: Tensor, loss: ClassVectorLoss) -> None:
        """Store the class ``uncertainty``, (classes,) or (attributes, 2), and set the margins of the loss."""
        self.uncertainty = uncertainty.detach().clone()
        loss.margins = self._margins(loss)

    def adapt(
        self, loss: ClassVectorLoss, features: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> float:
        """Update what the strength of ``loss`` depends on, after an epoch.

        For ``"feedback"`` the samples must be held out, and the shift that they lacked is returned; for the angular
        form, any samples show how far a unit of strength shifts the logits.

        Args:
            loss, features, target, sample_weight: as in :meth:`correct`.
        """
        if loss.margins is None:
            raise InvalidInputError(
                f"the curriculum needs a loss with margins, got {type(loss).__name__}; use UncertaintyMarginLoss."
            )
        with torch.no_grad():
            logits = head_logits(loss, features)
            if loss.angular:
                self.angle = angular_strength(logits, features, target, loss.margins, sample_weight=sample_weight)
            if self.strength != "feedback":
                return 0.0
            lacking = lacking_shift(logits, target, loss.margins - 1, sample_weight=sample_weight)
            loss.strength = (loss.strength + self.feedback * self.angle * lacking).clamp_min(0.0)
        return lacking

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint; margins and strength are the loss's own buffers."""
        state = {"angle": torch.tensor(self.angle, dtype=torch.float64), "epoch": torch.tensor(self.epoch)}
        if self.uncertainty is not None:
            state["uncertainty"] = self.uncertainty
        if self.scaling is not None:
            state |= {"scale": self.scaling.scale, "bias": self.scaling.bias}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a ``state``, as in :meth:`state_dict`."""
        self.uncertainty, self.angle, self.epoch = state.get("uncertainty"), float(state["angle"]), int(state["epoch"])
        self.scaling = Scaling(state["scale"], state["bias"]) if "scale" in state else None
