"""The figures which the paper prints, in percent, to stand beside ours."""

from collections.abc import Mapping

Figures = Mapping[str, Mapping[str, float]]
"""Method of ``METHODS`` -> score of a table -> figure."""


def _row(accuracy: float, precision: float, recall: float, f1: float, g_mean: float, iba: float) -> dict[str, float]:
    return {
        "accuracy": accuracy,
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "g_mean": g_mean,
        "iba": iba,
    }


CIFAR10: Figures = {  # no kernel is printed for the support vector machine
    "svm_linear": _row(34.2, 60.9, 34.3, 30.5, 69.7, 55.5),
    "near_miss": _row(63.5, 66.1, 63.5, 62.8, 79.2, 61.8),
    "smote": _row(76.3, 80.5, 76.3, 75.0, 88.3, 77.1),
    "adasyn": _row(76.4, 80.4, 76.4, 75.2, 88.2, 76.9),
    "cluster_centroids": _row(75.7, 78.3, 75.7, 75.9, 87.0, 74.8),
    "neighbourhood_cleaning": _row(76.7, 79.2, 76.7, 75.9, 85.7, 73.2),
    "instance_hardness": _row(67.8, 76.3, 67.8, 67.6, 79.9, 63.4),
    "cross_entropy": {"accuracy": 76.8},
    "uncertainty_margin": _row(80.6, 80.8, 80.6, 80.4, 88.7, 77.6),
}
PASSES: Mapping[int, float] = {5: 80.4, 10: 80.6, 20: 80.6, 40: 80.7}
LARGEST_MARGIN: Mapping[int, float] = {2: 80.2, 3: 80.6, 4: 80.5}
MARGINS: Figures = {
    "cross_entropy": {"accuracy": 76.8},
    "am_softmax": {"accuracy": 78.3},
    "am_softmax_uncertainty": {"accuracy": 78.9},
    "arcface": {"accuracy": 78.1},
    "arcface_uncertainty": {"accuracy": 78.4},
    "l_softmax": {"accuracy": 79.4},
    "l_softmax_uncertainty": {"accuracy": 79.9},
    "sphereface": {"accuracy": 76.2},
    "sphereface_uncertainty": {"accuracy": 77.5},
}
MNIST: Mapping[float, Figures] = {
    0.3: {"uncertainty_class_level": {"accuracy": 98.0}, "uncertainty_margin": {"accuracy": 98.3}},
    0.5: {
        "cross_entropy": {"accuracy": 97.2},
        "uncertainty_class_level": {"accuracy": 98.3},
        "uncertainty_margin": {"accuracy": 98.7},
    },
    0.7: {"uncertainty_class_level": {"accuracy": 98.2}, "uncertainty_margin": {"accuracy": 98.7}},
}
"""By dropout rate; the softmax baseline is printed once, without one."""
SKIN: Mapping[str, Figures] = {
    "dermofit_5": {"cross_entropy": {"accuracy": 75.2}, "uncertainty_margin": {"accuracy": 95.7}},
    "dermofit": {"cross_entropy": {"accuracy": 69.5}, "uncertainty_margin": {"accuracy": 86.9}},
}
ATTRIBUTES = 87.0
"""Mean BCA over CelebA's 40 attributes."""
