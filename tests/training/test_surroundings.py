"""A fit leaves nothing behind in its process."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, os, warnings
import numpy as np
from equipoise.estimators.network import UncertaintyBalancedClassifier

def state():
    return {"environment": dict(os.environ), "filters": [str(entry) for entry in warnings.filters]}

before = state()
x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    inside = state()
    model = UncertaintyBalancedClassifier(epochs=1, width=8, random_state=0).fit(x, y)
    assert state() == inside, "while the caller's own filters hold"
model.predict(x)
model.uncertainty(x)
model.save("model")
UncertaintyBalancedClassifier.load("model").predict_proba(x)
print(json.dumps([before, state()]))
"""


def test_environment_and_warning_filters_are_as_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(CODE.replace("print(json.dumps([before, state()]))", "after = state()"), names)
    assert names["after"] == names["before"]


@pytest.mark.slow
def test_they_are_in_a_process_that_imports_everything_for_its_first_fit(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout)
    assert after == before
