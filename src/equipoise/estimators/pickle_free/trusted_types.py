"""The types that a stored scikit-learn model may consist of; all others are refused by name."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from equipoise.errors import InvalidInputError


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PACKAGES = tuple(
    f"{library}.{name}"
    for library, names in {
        "sklearn": "calibration compose discriminant_analysis dummy ensemble feature_selection frozen impute isotonic "
        "linear_model multiclass multioutput naive_bayes neural_network pipeline preprocessing tree",
        "imblearn": "combine ensemble over_sampling pipeline under_sampling",
    }.items()
    for name in names.split()
)
"""Packages whose public classes are allowed: they predict in NumPy, or with trees that are checked.

Support vector machines and nearest neighbours are excluded: their compiled code trusts its input.
"""
UNCHECKED = frozenset(("sklearn.ensemble._iforest.IsolationForest",))
"""Public classes of these packages that are excluded because their compiled code would trust a file."""
SINGLE_CLASSES = _names("""
    sklearn._loss.link.HalfLogitLink sklearn._loss.link.Interval sklearn._loss.link.LogitLink
    sklearn._loss.link.MultinomialLogit sklearn._loss.loss.ExponentialLoss sklearn._loss.loss.HalfBinomialLoss
    sklearn._loss.loss.HalfMultinomialLoss sklearn.calibration._CalibratedClassifier
    sklearn.calibration._SigmoidCalibration sklearn.calibration._TemperatureScaling
    sklearn.compose._column_transformer._RemainderColsList sklearn.compose._column_transformer.make_column_selector
    sklearn.decomposition._pca.PCA sklearn.decomposition._truncated_svd.TruncatedSVD
    sklearn.ensemble._hist_gradient_boosting.binning._BinMapper sklearn.multiclass._ConstantPredictor
    sklearn.neural_network._stochastic_optimizers.AdamOptimizer sklearn.utils._bunch.Bunch
    sklearn.neural_network._stochastic_optimizers.SGDOptimizer sklearn.svm._classes.LinearSVC
    equipoise.estimators.given_probabilities.GivenProbabilities equipoise.estimators.log_odds_vote.LogOddsVote
    equipoise.estimators.packed_network.PackedNetwork
""")
COMPILED_LOSSES = _names("""
    CyExponentialLoss CyHalfBinomialLoss CyHalfMultinomialLoss EpsilonInsensitive Hinge Huber Log ModifiedHuber
    SquaredEpsilonInsensitive SquaredHinge SquaredLoss
""")
LOSS_MODULES = ("sklearn._loss._loss", "_loss", "sklearn.linear_model._sgd_fast")
SCORE_FUNCTIONS = tuple(
    f"sklearn.feature_selection.{name}"
    for name in ("_univariate_selection.f_classif", "_univariate_selection.chi2", "_mutual_info.mutual_info_classif")
)
"""Functions that a column selector may name; they are called when it is fitted."""
BUILTINS = _names("bool dict float int list set slice str tuple")
NUMBERS = _names("""
    bool bool_ dtype float16 float32 float64 floating generic int16 int32 int64 int8 intc integer intp longlong ndarray
    number object_ str_ uint16 uint32 uint64 uint8 uintc ulonglong
""")
PLAIN = frozenset(
    (*(f"builtins.{name}" for name in BUILTINS), *(f"numpy.{name}" for name in NUMBERS), "collections.OrderedDict")
)
LOADERS = _names("""
    DTypeNode DictNode FunctionNode JsonNode ListNode LossNode NdArrayNode ObjectNode SetNode SliceNode TupleNode
    TypeNode
""")
"""Node types that skops may build objects from; it has others that call methods or functions."""


@cache
def trusted_types() -> frozenset[str]:
    """Return the full names of all allowed classes of scikit-learn and imbalanced-learn."""
    from sklearn.base import BaseEstimator

    losses = (f"{module}.{loss}" for module in LOSS_MODULES for loss in COMPILED_LOSSES)
    names = {*SINGLE_CLASSES, *SCORE_FUNCTIONS, *losses}
    for package in PACKAGES:
        for name, found in vars(import_module(package)).items():
            own = isinstance(found, type) and issubclass(found, BaseEstimator) and found.__module__.startswith(package)
            if own and not name.startswith("_"):
                names.add(type_name(found))
    return frozenset(names) - UNCHECKED


def type_name(kind: type) -> str:
    """Return the module and name of a class."""
    return f"{kind.__module__}.{kind.__name__}"


def check_types(schema: Any, *, where: object) -> None:
    """Raise an error if the JSON description of a skops file names an untrusted type."""
    for entry in entries(schema):
        loader, name = entry["__loader__"], f"{entry.get('__module__')}.{entry.get('__class__')}"
        if loader == "JsonNode" or (loader in LOADERS and _is_trusted(loader, name)):
            continue
        shown = name if name.replace(".", "").replace("_", "").isalnum() and len(name) < 200 else "of another kind"
        raise InvalidInputError(
            f"{where} contains an object of the type {shown}, which cannot be stored without pickle; "
            "docs/any-model.md lists what can, under Saving."
        )


def entries(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a skops description."""
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            if isinstance(found.get("__loader__"), str):
                yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _is_trusted(loader: str, name: str) -> bool:
    if loader == "FunctionNode":  # skops trusts only ufuncs unless asked for more
        return name.startswith(("numpy.", "scipy.special.")) or name in SCORE_FUNCTIONS
    return name in PLAIN or name in trusted_types()
