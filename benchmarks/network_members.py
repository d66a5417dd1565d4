"""How the members of a blend's network can share work, and what each way costs and gives.

    EQUIPOISE_DATA=… OMP_NUM_THREADS=1 python benchmarks/network_members.py

Some tables of tables.py, one of three folds of the split of blend_variants.py. Five cross-fitted members each:

- packed: own weights, all members step at the same time, by batched products with a gradient written out (as built);
- one after the other: the same networks, each by itself;
- wider: packed, 128 units;
- shared weights: BatchEnsemble's, one matrix for all members with two vectors of each; TabM is of this kind.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from blend_variants import FOLDS, SEED
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from tables import table_of
from threadpoolctl import threadpool_limits

from equipoise import BalancedClassifier
from equipoise.estimators.packed_network import PackedNetwork

USED = ("german", "phoneme", "segment0", "winequality-red-4", "contraceptive", "satimage")
PACKAGES = ("equipoise", "scikit-learn", "torch", "numpy")


class SharedMember(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A member of a network whose matrices all members share."""

    def __init__(self, net: Any = None, scale: Any = None, number: int = 0, classes: Any = None) -> None:
        self.net, self.scale, self.number, self.classes = net, scale, number, classes
        self.classes_ = classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        x = torch.from_numpy(self.scale.transform(X)).float()
        with torch.no_grad():
            found: NDArray[np.float64] = self.net(x, self.number).double().softmax(-1).numpy()
        return found


class SharedNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """BatchEnsemble: layer l of member k is s_k ∘ (W_l (r_k ∘ x)) + b_k, with W_l for all members."""

    def __init__(self, width: int = 64, steps: int = 500, random_state: int | None = None) -> None:
        self.width, self.steps, self.random_state = width, steps, random_state

    def predict_proba(self, X: Any) -> Any:
        raise NotImplementedError  # its members answer

    def fit(self, X: Any, y: Any) -> Any:
        raise NotImplementedError  # all members at once

    def fit_members(self, x: Any, y: NDArray[np.int64], parts: Sequence[Any], sample_weight: Any) -> list[Any]:
        assert sample_weight is None
        torch.manual_seed(self.random_state or 0)
        rng = np.random.default_rng(self.random_state)
        scale = StandardScaler().fit(x)
        rows, target = torch.from_numpy(scale.transform(x)).float(), torch.from_numpy(y)
        net = _Shared(x.shape[1], self.width, int(y.max()) + 1, len(parts))
        optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.02)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=self.steps)
        for _ in range(self.steps):
            loss = torch.zeros(())
            for number, part in enumerate(parts):
                batch = rng.choice(part, min(128, len(part)), replace=False)
                loss = loss + F.cross_entropy(net(rows[batch], number), target[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
        return [SharedMember(net, scale, number, np.arange(net.classes)) for number in range(len(parts))]


class _Shared(torch.nn.Module):
    def __init__(self, columns: int, width: int, classes: int, members: int) -> None:
        super().__init__()
        self.classes = classes
        sizes = [(columns, width), (width, width), (width, classes)]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in sizes)
        signs = [[torch.randint(0, 2, (members, size)) * 2.0 - 1 for size in pair] for pair in sizes]
        self.into = torch.nn.ParameterList(pair[0] for pair in signs)
        self.out = torch.nn.ParameterList(pair[1] for pair in signs)
        self.bias = torch.nn.ParameterList(torch.zeros(members, b) for _, b in sizes)

    def forward(self, x: Any, number: int) -> Any:
        for place, layer in enumerate(self.layers):
            x = layer(x * self.into[place][number]) * self.out[place][number] + self.bias[place][number]
            x = F.silu(x) if place < len(self.layers) - 1 else x
        return x


class Alone(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The same network without ``fit_members``: every member is fitted by itself."""

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "Alone":
        self.model_ = PackedNetwork(random_state=self.random_state).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.model_.predict_proba(X)


WAYS: dict[str, Callable[[], Any]] = {
    "packed (as built)": PackedNetwork,
    "one after the other": Alone,
    "packed, 128 units": lambda: PackedNetwork(width=128),
    "shared weights": SharedNetwork,
}


def result(make: Callable[[], Any], x: Any, y: Any, new_x: Any, new_y: Any) -> dict[str, float]:
    """Fit, and return CPU seconds, scores on new rows and the log loss out of fold."""
    model = BalancedClassifier(make(), random_state=0)
    start = time.process_time()
    model.fit(x, y)
    seconds = time.process_time() - start
    p, known = model.predict_proba(new_x), np.searchsorted(model.classes_, new_y)
    own = np.searchsorted(model.classes_, y)
    return {
        "seconds": seconds,
        "balanced_accuracy": float(balanced_accuracy_score(new_y, model.predict(new_x))),
        "log_loss": float(-np.log(p[np.arange(len(p)), known].clip(1e-15)).mean()),
        "out_of_fold": float(-np.log(model.out_of_fold_[np.arange(len(own)), own].clip(1e-15)).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/network_members.json"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    found = json.loads(out.read_text()) if out.exists() else {"cells": {}}
    found["versions"] = {name: version(name) for name in PACKAGES}
    for name in USED:
        _, x, y = table_of(name)
        train, test = next(iter(StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(x, y)))
        for way, make in WAYS.items():
            key = f"{name} | {way}"
            if key in found["cells"]:
                continue
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found["cells"][key] = result(make, x[train], y[train], x[test], y[test])
            out.write_text(json.dumps(found, indent=1) + "\n")
            print(key, found["cells"][key], flush=True)


if __name__ == "__main__":
    main()
