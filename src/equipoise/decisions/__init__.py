"""From probabilities to predictions: the class to name, and when to name none."""

from equipoise.decisions.abstention import AbstainedShares, RiskCoverage, abstained_shares, risk_coverage

__all__ = ["AbstainedShares", "RiskCoverage", "abstained_shares", "risk_coverage"]
