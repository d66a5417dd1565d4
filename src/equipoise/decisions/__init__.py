"""Decision rules on probabilities: by costs, floors and budgets, with their expected results, and abstention."""

from equipoise.decisions.abstention import AbstainedShares, RiskCoverage, abstained_shares, risk_coverage
from equipoise.decisions.base_rule import DecisionRule
from equipoise.decisions.chosen_rule import Chosen
from equipoise.decisions.costs import Costs
from equipoise.decisions.evidence import Evidence
from equipoise.decisions.expected_results import ClassExpectation, Expected
from equipoise.decisions.f_score import FScore
from equipoise.decisions.most_probable import Balanced, Natural
from equipoise.decisions.policy import Promise
from equipoise.decisions.precision_at_least import PrecisionAtLeast
from equipoise.decisions.recall_at_least import RecallAtLeast
from equipoise.decisions.registry import DECISIONS, rule_from_json
from equipoise.decisions.review_budget import ReviewBudget
from equipoise.decisions.situation import Situation
from equipoise.evaluation.intervals import Estimate

__all__ = [
    "DECISIONS",
    "AbstainedShares",
    "Balanced",
    "Chosen",
    "ClassExpectation",
    "Costs",
    "DecisionRule",
    "Estimate",
    "Evidence",
    "Expected",
    "FScore",
    "Natural",
    "PrecisionAtLeast",
    "Promise",
    "RecallAtLeast",
    "ReviewBudget",
    "RiskCoverage",
    "Situation",
    "abstained_shares",
    "risk_coverage",
    "rule_from_json",
]
