"""What predictions are worth: scores class by class, the class mix they are aimed at, and which to trust."""

from equipoise.evaluation.abstention import AbstainedShares, RiskCoverage, abstained_shares, risk_coverage
from equipoise.evaluation.calibration import Calibration
from equipoise.evaluation.conformal import ClassThresholds
from equipoise.evaluation.label_doubt import LabelDoubt, label_doubt
from equipoise.evaluation.prior import estimate_prior, move_prior
from equipoise.evaluation.scores import Scores, Spread, scores
from equipoise.evaluation.skill import Skill, skill

__all__ = [
    "AbstainedShares",
    "Calibration",
    "ClassThresholds",
    "LabelDoubt",
    "RiskCoverage",
    "Scores",
    "Skill",
    "Spread",
    "abstained_shares",
    "estimate_prior",
    "label_doubt",
    "move_prior",
    "risk_coverage",
    "scores",
    "skill",
]
