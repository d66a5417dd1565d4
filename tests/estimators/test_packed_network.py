"""The small networks of a blend: gradients against autograd, members that are trained together."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from equipoise.estimators import packed_network
from equipoise.estimators.packed_network import PackedNetwork


def table(rows=300, seed=0):
    rng = np.random.RandomState(seed)
    x = rng.randn(rows, 4)
    return x, (x[:, 0] * x[:, 1] > 0.3).astype(np.int64)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_written_gradient_is_that_of_autograd(dropout):
    generator = torch.Generator().manual_seed(0)
    packed = packed_network._Packed(members=3, columns=5, width=7, classes=4, generator=generator)
    packed.flat.copy_(torch.randn(packed.flat.shape, generator=generator) * 0.5)
    x, target = torch.randn(3, 6, 5, generator=generator), torch.randint(0, 4, (3, 6), generator=generator)
    weight = torch.rand(3, 6, generator=generator)
    packed.gradient(x, target, weight, dropout, torch.Generator().manual_seed(7))

    masks = torch.Generator().manual_seed(7)
    w = {name: value.clone().requires_grad_() for name, value in packed.weights.items()}
    h = x
    for number in (1, 2):
        h = F.silu(h @ w[f"w{number}"] + w[f"b{number}"])
        if dropout:
            h = h * (torch.rand((3, 1, 7), generator=masks) >= dropout) / (1 - dropout)
    logits = h @ w["w3"] + x @ w["skip"] + w["b3"]
    losses = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(3, 6)
    (weight * losses).mean(1).sum().backward()
    for name, value in w.items():
        torch.testing.assert_close(packed.slopes[name], value.grad, msg=name, atol=1e-5, rtol=1e-4)


def test_a_step_is_that_of_adamw():
    generator = torch.Generator().manual_seed(0)
    packed = packed_network._Packed(2, 3, 4, 2, generator)
    own = {name: value.clone().requires_grad_() for name, value in packed.weights.items()}
    decayed = [value for name, value in own.items() if not name.startswith("b")]
    others = [value for name, value in own.items() if name.startswith("b")]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95))
    for number in range(3):
        packed.slope.copy_(torch.randn(packed.slope.shape, generator=generator))
        for name, value in own.items():
            value.grad = packed.slopes[name].clone()
        optimizer.step()
        packed.step(number, 0.01, 0.1)
    for name, value in own.items():
        torch.testing.assert_close(packed.weights[name], value.detach(), msg=name)


def test_it_learns_what_a_line_cannot():
    x, y = table(600)
    fitted = PackedNetwork(steps=300, random_state=0).fit(x[:400], y[:400])
    assert (fitted.predict(x[400:]) == y[400:]).mean() > 0.85


def test_the_same_seed_gives_the_same_network():
    x, y = table(120)
    one, two, other = (PackedNetwork(steps=20, random_state=seed).fit(x, y).predict_proba(x) for seed in (3, 3, 4))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_members_learn_from_their_own_rows_alone():
    """The second member's rows have turned labels: it must say the opposite of the first."""
    x, y = table(400)
    rows = [np.arange(200), np.arange(200, 400)]
    turned = np.where(np.arange(400) < 200, y, 1 - y)
    first, second = PackedNetwork(steps=300, random_state=0).fit_members(x, turned, rows)
    assert (first.predict(x) == y).mean() > 0.8
    assert (second.predict(x) == y).mean() < 0.2


def test_a_member_knows_only_the_classes_of_its_rows():
    x = np.random.RandomState(0).randn(90, 2)
    y = np.repeat([0, 1, 2], 30)
    members = PackedNetwork(steps=10, random_state=0).fit_members(x, y, [np.arange(60), np.arange(90)])
    assert [member.classes_.tolist() for member in members] == [[0, 1], [0, 1, 2]]
    assert members[0].predict_proba(x).shape == (90, 2)
    np.testing.assert_allclose(members[0].predict_proba(x).sum(1), 1)


def test_weights_count_as_copies():
    x, y = table(200)
    heavy = PackedNetwork(steps=200, random_state=0).fit(x, y, np.where(y == 1, 5.0, 1.0)).predict_proba(x)[:, 1].mean()
    copied = np.concatenate((x, *[x[y == 1]] * 4)), np.concatenate((y, *[y[y == 1]] * 4))
    copies = PackedNetwork(steps=200, random_state=0).fit(*copied).predict_proba(x)[:, 1].mean()
    plain = PackedNetwork(steps=200, random_state=0).fit(x, y).predict_proba(x)[:, 1].mean()
    assert abs(heavy - copies) < abs(plain - copies) / 2


def test_scales_of_any_size_give_finite_probabilities():
    x, y = table(100)
    x = x * [1e-30, 1e30, 1, 1] + [0, 0, 1e12, 0]
    x[:, 3] = 5.0
    p = PackedNetwork(steps=20, random_state=0).fit(x, y).predict_proba(x * 1e3)
    assert np.isfinite(p).all()
    member = PackedNetwork(steps=5, random_state=0).fit_members(x.astype(np.float32), y, [np.arange(100)])[0]
    assert np.isfinite(member.predict_proba(x)).all()
