"""Evaluation of predictions: scores by class, skill against guessing, and suspicious labels."""

from equipoise.evaluation.class_metrics import Scores, Spread, Top
from equipoise.evaluation.label_quality import LabelDoubt, label_doubt
from equipoise.evaluation.metrics import METRICS
from equipoise.evaluation.operating_points import OperatingPoints, Outcome, operating_points
from equipoise.evaluation.scores import scores
from equipoise.evaluation.skill import Skill, skill

__all__ = [
    "METRICS",
    "LabelDoubt",
    "OperatingPoints",
    "Outcome",
    "Scores",
    "Skill",
    "Spread",
    "Top",
    "label_doubt",
    "operating_points",
    "scores",
    "skill",
]
