"""
MLflow
======

Run it with ``pip install mlflow && python examples/adapters/mlflow_model.py``.

Log a fitted estimator to MLflow with its scores, and load it again for prediction. MLflow's own scikit-learn flavour
pickles the model. This recipe logs the folder that ``save`` writes, with the model card, so nothing in the artifact can
run code. ``load_model`` returns the estimator itself.
"""

import os
import tempfile
from pathlib import Path

import mlflow
import numpy as np
from mlflow.artifacts import download_artifacts
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from equipoise import BalancedClassifier
from equipoise.evaluation import scores


def log_model(model: BalancedClassifier, name: str = "model") -> str:
    """Log a fitted model as artifacts of the active run, and return their address."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        mlflow.log_artifacts(folder, name)
    return mlflow.get_artifact_uri(name)


def load_model(address: str) -> BalancedClassifier:
    """Load a model that ``log_model`` logged."""
    return BalancedClassifier.load(download_artifacts(artifact_uri=address))


def main(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Fit, log and load a model; return its probabilities before and after."""
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    if mlflow.get_experiment_by_name("rare") is None:
        mlflow.create_experiment("rare", artifact_location=Path(folder, "artifacts").as_uri())
    mlflow.set_experiment("rare")
    x, y = load_breast_cancer(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, stratify=y, random_state=0)
    with mlflow.start_run():
        model = BalancedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0).fit(x, y)
        found = scores(y_test, model.predict(x_test), probabilities=model.predict_proba(x_test))
        mlflow.log_params({"estimator": "logistic regression", "rows": len(x)})
        mlflow.log_metrics({"accuracy": found.accuracy, "balanced_accuracy": found.balanced_accuracy})
        address = log_model(model)
    return model.predict_proba(x_test), load_model(address).predict_proba(x_test)


if __name__ == "__main__":
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with tempfile.TemporaryDirectory() as place:
        before, after = main(place)
    print("the loaded model predicts the same:", np.array_equal(before, after))
