"""What every loss in LOSSES promises, whatever its formula."""

import inspect

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, ClassVectorLoss, LogitLoss
from equipoise.losses.softmax_loss import gather_classes
from tests.losses.cases import (
    ATTRIBUTES,
    CLASSES,
    COUNTS,
    FEATURES,
    PAIR_COUNTS,
    ROWS,
    batch,
    build,
    f64,
    prepared,
    seeded,
)

EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)
BOTH_TASKS = pytest.mark.parametrize("multilabel", [False, True], ids=["classes", "labels"])
COSINE_MARGINS = ("ldam_drw", "am_softmax", "arcface")
"""On unit features: they train without dropout."""
UNIT_VECTORS = ["ldam_drw", "am_softmax", "arcface", "sphereface", "uncertainty_margin"]
UNIT_FEATURES = ["ldam_drw", "am_softmax", "arcface"]


def weighted(loss):
    """Weights of 1 where the loss has none."""
    return torch.ones(loss.class_shape, dtype=torch.float64) if loss.class_weight is None else loss.class_weight


def gradients(loss, features, target):
    features = features.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(features, target).sum(), (features, loss.weight))


def test_no_name_that_others_build_on_is_missing():
    rivals = {"cross_entropy", "weighted", "focal", "class_balanced", "ldam_drw", "balanced_softmax"}
    adjusted = {"logit_adjustment", "vs"}
    margins = {"am_softmax", "arcface", "l_softmax", "sphereface", "uncertainty_margin"}
    assert rivals | adjusted | margins <= set(LOSSES)


@EVERY_LOSS
def test_every_loss_is_built_and_called_alike(name):
    shared = {"multilabel", "dropout", "class_counts", "class_weight", "reduction"}
    loss = LOSSES[name](FEATURES, CLASSES, class_counts=COUNTS)
    assert isinstance(loss, ClassVectorLoss)
    assert shared <= set(inspect.signature(LOSSES[name]).parameters)
    call = inspect.signature(loss.forward).parameters
    assert list(call)[:3] == ["features", "target", "sample_weight"]
    assert call["sample_weight"].kind is inspect.Parameter.KEYWORD_ONLY
    loss.set_progress(0.5)
    assert f"in_features={FEATURES}, classes={CLASSES}, multilabel=False" in repr(loss)


@EVERY_LOSS
@BOTH_TASKS
def test_the_reductions_agree(name, multilabel):
    features, target = batch(multilabel=multilabel)
    none, total, mean = (
        build(name, multilabel=multilabel, reduction=r)(features, target) for r in ("none", "sum", "mean")
    )
    loss = build(name, multilabel=multilabel)
    assert none.shape == (ROWS,)
    assert total.shape == mean.shape == ()
    torch.testing.assert_close(total, none.sum())
    losses = loss.sample_losses(features, target)  # (batch,) or (batch, attributes), before any weight
    weights = gather_classes(weighted(loss), target)
    torch.testing.assert_close(mean, ((losses * weights).sum(0) / weights.sum(0)).sum())
    assert bool(mean > 0)


@EVERY_LOSS
@BOTH_TASKS
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_sample_of_weight_two_is_the_sample_twice(name, multilabel, reduction):
    features, target = batch(multilabel=multilabel)
    loss = build(name, multilabel=multilabel, reduction=reduction)
    weight = torch.ones(ROWS)
    weight[3], weight[5] = 2, 0
    rows = [0, 1, 2, 3, 3, 4, 6, 7]
    expected = loss(features[rows], target[rows])
    torch.testing.assert_close(loss(features, target, sample_weight=weight), expected)


@EVERY_LOSS
@BOTH_TASKS
def test_class_weights_multiply_the_loss_of_their_class(name, multilabel):
    features, target = batch(multilabel=multilabel)
    shape = (ATTRIBUTES, 2) if multilabel else (CLASSES,)
    weight = torch.linspace(0, 2, 6 if multilabel else 5).view(shape)
    loss = build(name, multilabel=multilabel, class_weight=weight, reduction="none")
    losses = loss.sample_losses(features, target) * gather_classes(weight.double(), target)
    torch.testing.assert_close(loss(features, target), losses.sum(-1) if multilabel else losses)


@EVERY_LOSS
def test_class_weights_and_counts_may_be_arrays_or_lists(name):
    features, target = batch()
    weight = [1.0, 2.0, 3.0, 4.0, 5.0]
    expected = build(name, class_weight=torch.tensor(weight))(features, target)
    for given_ in (np.array(weight), weight):
        assert torch.equal(build(name, class_weight=given_, class_counts=COUNTS.numpy())(features, target), expected)


@EVERY_LOSS
def test_logits_take_tensors_only(name):
    with pytest.raises(InvalidInputError, match="features must be a torch tensor, got list"):
        build(name).logits([[0.0] * FEATURES])


@EVERY_LOSS
def test_a_batch_of_weight_zero_costs_nothing_and_gives_no_nan(name):
    features, target = batch()
    loss = build(name)
    assert float(loss(features, target, sample_weight=torch.zeros(ROWS)).detach()) == 0


@EVERY_LOSS
@BOTH_TASKS
def test_gradients_reach_the_features_and_the_class_vectors(name, multilabel):
    features, target = batch(multilabel=multilabel)
    for part in gradients(build(name, multilabel=multilabel), features, target):
        assert bool(part.isfinite().all())
        assert bool((part.abs().sum(-1) > 0).all())


@EVERY_LOSS
@BOTH_TASKS
def test_gradcheck(name, multilabel):
    features, target = batch(rows=3, multilabel=multilabel)
    loss = build(name, multilabel=multilabel, reduction="none")

    def value(features, weight):
        return torch.func.functional_call(loss, {"weight": weight}, (features, target))

    assert torch.autograd.gradcheck(value, (features.requires_grad_(), loss.weight.detach().requires_grad_()))


@EVERY_LOSS
@BOTH_TASKS
def test_a_step_against_the_gradient_lowers_the_loss(name, multilabel):
    features, target = batch(multilabel=multilabel)
    loss = build(name, multilabel=multilabel)
    before = loss(features, target)
    before.backward()
    with torch.no_grad():
        loss.weight -= 1e-3 * loss.weight.grad
    assert bool(loss(features, target) < before)


@EVERY_LOSS
@BOTH_TASKS
def test_a_sample_alone_costs_what_it_costs_in_the_batch(name, multilabel):
    features, target = batch(multilabel=multilabel)
    loss = build(name, multilabel=multilabel, reduction="none")
    together = loss(features, target)
    alone = torch.cat([loss(features[i : i + 1], target[i : i + 1]) for i in range(ROWS)])
    torch.testing.assert_close(alone, together)


@EVERY_LOSS
def test_a_class_absent_from_the_batch_is_fine(name):
    features, _ = batch()
    target = torch.ones(ROWS, dtype=torch.int64)
    loss = build(name)
    assert bool(loss(features, target).isfinite())
    assert all(bool(part.isfinite().all()) for part in gradients(loss, features, target))


@EVERY_LOSS
@BOTH_TASKS
def test_an_empty_batch_costs_nothing(name, multilabel):
    features, target = batch(multilabel=multilabel)
    assert float(build(name, multilabel=multilabel)(features[:0], target[:0]).detach()) == 0


@EVERY_LOSS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_features_and_class_vectors_of_length_zero_give_finite_gradients(name, dtype):
    features, target = batch(dtype=dtype)
    features[::2] = 0
    loss = build(name, dtype=dtype)
    with torch.no_grad():
        loss.weight[1] = 0
    assert bool(loss(features, target).isfinite())
    assert all(bool(part.isfinite().all()) for part in gradients(loss, features, target))


@EVERY_LOSS
@pytest.mark.parametrize("counts", [[100.0, 10.0, 0.0, 5.0, 0.0], [0.0] * CLASSES], ids=["two unseen", "none seen"])
def test_a_class_without_a_training_sample_gives_no_nan(name, counts):
    features, target = batch()
    loss = build(name, class_counts=torch.tensor(counts))
    loss.set_progress(1.0)
    assert bool(loss(features, target).isfinite())
    assert all(bool(part.isfinite().all()) for part in gradients(loss, features, target))


@EVERY_LOSS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_are_widened_to_float32_also_under_autocast(name, dtype):
    features, target = batch(dtype=dtype)
    loss = build(name, dtype=torch.float32)
    expected = loss(features.float(), target)
    assert expected.dtype == torch.float32
    assert torch.equal(loss(features, target), expected)
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(loss(features, target), expected)
        assert loss.logits(features).dtype == torch.float32
        assert torch.equal(loss.logits(features), loss.logits(features.float()))
    slope = gradients(loss, features, target)
    assert [part.dtype for part in slope] == [dtype, torch.float32]
    assert all(bool(part.isfinite().all()) for part in slope)


@EVERY_LOSS
def test_double_features_meet_float_class_vectors_in_double(name):
    features, target = batch()
    loss = build(name, dtype=torch.float32)
    assert loss(features, target).dtype == loss.logits(features).dtype == torch.float64
    single = loss(features.float(), target)
    torch.testing.assert_close(loss(features, target).float(), single, rtol=1e-4, atol=1e-5)


@EVERY_LOSS
@BOTH_TASKS
def test_the_state_dict_restores_the_loss(name, multilabel):
    features, target = batch(multilabel=multilabel)
    loss = build(name, multilabel=multilabel)
    loss.set_progress(1.0)
    if "margins" in loss.state_dict():
        loss.margins = loss.margins * 1.25
    counts = PAIR_COUNTS if multilabel else COUNTS
    fresh = LOSSES[name](
        FEATURES, ATTRIBUTES if multilabel else CLASSES, multilabel=multilabel, class_counts=counts.flip(-1)
    )
    fresh = fresh.double().eval()
    assert not torch.equal(fresh(features, target), loss(features, target))
    fresh.load_state_dict(loss.state_dict())
    assert torch.equal(fresh(features, target), loss(features, target))
    assert loss.state_dict().keys() == fresh.state_dict().keys()


@EVERY_LOSS
@BOTH_TASKS
def test_logits_for_prediction_have_the_classes_shape_and_no_margin(name, multilabel):
    features, _ = batch(multilabel=multilabel)
    loss = build(name, multilabel=multilabel)
    vectors = F.normalize(loss.weight, dim=-1) if name in UNIT_VECTORS else loss.weight
    expected = (F.normalize(features, dim=-1) * loss.scale if name in UNIT_FEATURES else features) @ vectors.T
    if loss.bias is not None:
        expected = expected + loss.bias
    logits = loss.logits(features)
    assert logits.shape == (ROWS, *((ATTRIBUTES, 2) if multilabel else (CLASSES,)))
    torch.testing.assert_close(logits, expected.view_as(logits))


@EVERY_LOSS
def test_only_heads_without_unit_vectors_or_margins_have_a_bias(name):
    loss = build(name)
    assert (loss.bias is None) == (name in (*UNIT_VECTORS, "l_softmax"))
    assert loss.normalize == (name in UNIT_VECTORS)


@EVERY_LOSS
def test_dropout_acts_in_training_and_not_in_eval(name):
    features, target = batch()
    loss = build(name, dropout=0.5)
    assert torch.equal(loss(features, target), build(name)(features, target))
    assert torch.equal(loss.logits(features), build(name).logits(features))
    loss.train()
    assert (len({float(loss(features, target).detach()) for _ in range(5)}) > 1) == (name not in COSINE_MARGINS)
    assert not torch.equal(loss.logits(features), loss.logits(features))


@EVERY_LOSS
def test_integer_labels_of_any_width_and_boolean_label_matrices_are_taken(name):
    features, target = batch()
    loss = build(name)
    for dtype in (torch.int32, torch.uint8, torch.uint16, torch.uint32):
        assert torch.equal(loss(features, target.to(dtype)), loss(features, target))
    features, target = batch(multilabel=True)
    loss = build(name, multilabel=True)
    for dtype in (torch.bool, torch.float32, torch.uint8, torch.uint16):
        assert torch.equal(loss(features, target.to(dtype)), loss(features, target))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x, y: (x, y + 1), r"target has label 5 but there are 5 classes \(0 to 4\); pass classes=6"),
        (lambda x, y: (x, y - 1), "target has label -1 but labels start at 0; check the labels"),
        (lambda x, y: (x, y[:-1]), r"target must have the shape \(8,\), got \(7,\)"),
        (lambda x, y: (x, y.double()), "target must hold integer labels"),
        (lambda x, y: (x, y > 1), "target must hold integer labels"),
        (lambda x, y: (x, y.to(torch.complex64)), "target must hold integer labels, got torch.complex64"),
        (lambda x, y: (x, y.tolist()), r"target must be a torch tensor, got list; wrap it in torch.as_tensor"),
        (lambda x, _: (x, None), "target must be a torch tensor, got NoneType"),
        (lambda x, y: (x.tolist(), y), "features must be a torch tensor, got list"),
        (lambda x, y: (x.numpy(), y), r"features must be a torch tensor, got ndarray; wrap it in torch.as_tensor"),
        (lambda x, y: (x[:, 1:], y), r"features must have the shape \(batch, 6\), got \(8, 5\)"),
        (lambda x, y: (x[0], y), r"features must have the shape \(batch, 6\), got \(6,\)"),
        (lambda x, y: (x.long(), y), r"features must be floating point, got torch.int64; call .float\(\)"),
        (lambda x, y: (x.index_fill(0, torch.tensor(2), float("nan")), y), "features must be finite, got NaN"),
        (lambda x, y: (x.index_fill(0, torch.tensor(2), float("inf")), y), "features must be finite"),
        (lambda x, y: (x.index_fill(0, torch.tensor(2), -float("inf")), y), "features must be finite"),
    ],
)
def test_a_bad_batch_gets_one_sentence(spoil, message):
    for name in LOSSES:
        loss = build(name)
        with pytest.raises(InvalidInputError, match=message):
            loss(*spoil(*batch()))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: y + 1, "must hold 0 and 1 only, got values from 1 to 2"),
        (lambda y: y - 1, "must hold 0 and 1 only, got values from -1 to 0"),
        (lambda y: y * 0.5, "must hold 0 and 1 only, got values from 0.0 to 0.5"),
        (lambda y: y[:, 0], r"target must have the shape \(8, 3\), got \(8,\)"),
        (lambda y: y * 1j, "must hold 0 and 1 only, got torch.complex64"),
        (lambda y: y.tolist(), "target must be a torch tensor, got list"),
    ],
)
def test_bad_label_matrices_get_one_sentence(spoil, message):
    features, target = batch(multilabel=True)
    for name in LOSSES:
        loss = build(name, multilabel=True)
        with pytest.raises(InvalidInputError, match=message):
            loss(features, spoil(target))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(ROWS - 1), r"sample_weight must have the shape \(8,\), got \(7,\)"),
        (-torch.ones(ROWS), "sample_weight must be finite and not negative"),
        (torch.full((ROWS,), float("nan")), "sample_weight must be finite and not negative"),
        ([1.0] * ROWS, "sample_weight must be a torch tensor, got list"),
    ],
)
def test_bad_sample_weights_get_one_sentence(weight, message):
    features, target = batch()
    for name in LOSSES:
        loss = build(name)
        with pytest.raises(InvalidInputError, match=message):
            loss(features, target, sample_weight=weight)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduction": "max"}, "reduction must be one of mean, sum, none, got 'max'"),
        ({"class_counts": torch.ones(4)}, r"class_counts must have the shape \(5,\), got \(4,\)"),
        ({"class_counts": -torch.ones(5)}, "class_counts must be finite and not negative"),
        ({"class_weight": torch.ones(4)}, r"class_weight must have the shape \(5,\), got \(4,\)"),
        ({"class_weight": torch.full((5,), float("inf"))}, "class_weight must be finite"),
        ({"class_weight": "inverse"}, "class_weight must be a tensor, 'balanced' or 'effective'"),
        ({"class_weight": {0: 1.0}}, "class_weight must be numbers, got dict"),
        ({"class_weight": np.ones(4)}, r"class_weight must have the shape \(5,\), got \(4,\)"),
        ({"class_counts": "many"}, "class_counts must be numbers, got str"),
    ],
)
def test_bad_options_get_one_sentence(options, message):
    for build_loss in LOSSES.values():
        with pytest.raises(InvalidInputError, match=message):
            build_loss(FEATURES, CLASSES, **({"class_counts": COUNTS} | options))


@EVERY_LOSS
@pytest.mark.parametrize(("features", "classes"), [(0, 5), (6, 1)])
def test_a_head_needs_features_and_two_classes(name, features, classes):
    with pytest.raises(InvalidInputError, match="in_features must be at least 1 and classes at least 2"):
        LOSSES[name](features, classes, class_counts=torch.ones(classes))


@EVERY_LOSS
def test_one_label_is_enough(name):
    loss = LOSSES[name](FEATURES, 1, multilabel=True, class_counts=PAIR_COUNTS[:1])
    features, target = batch(multilabel=True, dtype=torch.float32)
    assert bool(loss(features, target[:, :1]).isfinite())


@EVERY_LOSS
def test_missing_counts_are_asked_for_only_where_they_are_needed(name):
    features, target = batch()
    one, other = (build(name, class_counts=counts, reduction="none") for counts in (COUNTS, COUNTS.flip(0)))
    if torch.equal(one(features, target), other(features, target)):
        assert bool(build(name, class_counts=None)(features, target).isfinite())
    else:
        with pytest.raises(InvalidInputError, match="needs the number of training samples of each class"):
            build(name, class_counts=None)


def test_the_base_head_has_no_formula():
    features, target = batch(dtype=torch.float32)
    with pytest.raises(InvalidInputError, match="ClassVectorLoss has no formula"):
        ClassVectorLoss(FEATURES, CLASSES)(features, target)


def test_class_vectors_start_as_those_of_a_linear_layer_and_the_bias_at_zero():
    loss = LogitLoss(400, 50)
    bound = 400**-0.5
    assert bound * 0.99 < float(loss.weight.detach().abs().max()) <= bound
    assert not bool(loss.bias.any())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_class_vectors_are_of_unit_length_if_normalised(dtype):
    loss = prepared(ClassVectorLoss(FEATURES, CLASSES, normalize=True), dtype)
    torch.testing.assert_close(loss.class_vectors(dtype).norm(dim=-1), torch.ones(CLASSES, dtype=dtype))
    loss.normalize = False
    assert torch.equal(loss.class_vectors(dtype), loss.weight)


def test_each_samples_own_class_value_is_gathered():
    assert gather_classes(f64([1.0, 2.0, 3.0]), torch.tensor([2, 0])).tolist() == [3, 1]
    pairs = f64([[1.0, 2.0], [3.0, 4.0]])
    assert gather_classes(pairs, torch.tensor([[0, 1], [1, 0], [1, 1]])).tolist() == [[1, 4], [2, 3], [2, 4]]


def test_features_are_only_changed_where_a_square_would_overflow():
    loss = ClassVectorLoss(FEATURES, CLASSES)
    features, _ = batch(dtype=torch.float32)
    assert loss.checked_features(features) is features
    largest = torch.finfo(torch.float32).max ** 0.4
    huge = loss.checked_features(torch.tensor([[3e38, -3e38, 1.0, -1.0, 0.0, 1e15]]))
    torch.testing.assert_close(huge, torch.tensor([[largest, -largest, 1.0, -1.0, 0.0, 1e15]]))


def test_no_features_give_any_loss_a_non_finite_value_or_gradient():
    cases, rows = 0, 4096

    @settings(max_examples=260, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**31 - 1),
        name=st.sampled_from(list(LOSSES)),
        multilabel=st.booleans(),
        exponent=st.integers(-38, 38),
        vector_exponent=st.integers(-38, 10),
        share=st.sampled_from([0.0, 1.0]),
    )
    def check(*, seed, name, multilabel, exponent, vector_exponent, share):
        nonlocal cases
        generator = seeded(seed)
        loss = build(name, multilabel=multilabel, dtype=torch.float32)
        loss.set_progress(share)
        with torch.no_grad():
            loss.weight.copy_(torch.randn(loss.weight.shape, generator=generator) * 10.0**vector_exponent)
            loss.weight[0] = 0
        scale = 10.0 ** (exponent + torch.randn(rows, 1, generator=generator, dtype=torch.float64))
        features = (torch.randn(rows, FEATURES, generator=generator) * scale).clamp(-3e38, 3e38).float()
        features[:50], features[50:100] = 0, loss.weight.detach()[-1]
        features.requires_grad_()
        shape = (rows, ATTRIBUTES) if multilabel else (rows,)
        target = torch.randint(0, 2 if multilabel else CLASSES, shape, generator=generator)
        losses = loss(features, target)
        assert bool(losses.isfinite())
        for part in torch.autograd.grad(losses, (features, loss.weight)):
            assert bool(part.isfinite().all())
        cases += rows

    check()
    assert cases >= 1_000_000
