"""What predictions are worth: scores class by class, skill against guessing, and which labels to doubt."""

from equipoise.evaluation.derived_metrics import METRICS
from equipoise.evaluation.label_quality import LabelDoubt, label_doubt
from equipoise.evaluation.scores import Scores, Spread, scores
from equipoise.evaluation.skill import Skill, skill

__all__ = ["METRICS", "LabelDoubt", "Scores", "Skill", "Spread", "label_doubt", "scores", "skill"]
