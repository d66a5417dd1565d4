"""Stochastic passes: which dropout is live, what is left alone, and that the numbers are right."""

import math
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.models import Dropout
from equipoise.uncertainty import DROPOUT_TYPES, mc_dropout

PASSES = 6


class Calls(nn.Module):
    """Any function of x and of one dropout, to write a model in a line."""

    def __init__(self, function, dropout: nn.Module | None = None) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5) if dropout is None else dropout
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.drop)


class Recurrent(nn.Module):
    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell = cell(4, 5, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0][:, -1]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class FunctionalDropout(nn.Module):
    """Dropout without a module of its own, beside a BatchNorm which must stay as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.norm(x), 0.5, training=self.training)


def encoder_layer(**options) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, **({"dropout": 0.5} | options))


def only_attention_drops() -> nn.Module:
    layer = encoder_layer()
    for module in layer.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return layer


def all_but_attention_drops() -> nn.Module:
    layer = encoder_layer()
    layer.self_attn.dropout = 0.0
    return layer


MODELS = {
    "Dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), (4,)),
    "Dropout in place": (lambda: nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5, inplace=True), nn.Tanh()), (4,)),
    "Dropout1d": (lambda: nn.Sequential(nn.Dropout1d(0.5), nn.Flatten()), (9, 5)),
    "Dropout2d": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout2d(0.5), nn.Flatten()), (3, 5, 5)),
    "Dropout3d": (lambda: nn.Sequential(nn.Dropout3d(0.5), nn.Flatten()), (6, 2, 2, 2)),
    "AlphaDropout": (lambda: nn.Sequential(nn.AlphaDropout(0.5), nn.Linear(9, 3)), (9,)),
    "FeatureAlphaDropout": (lambda: nn.Sequential(nn.FeatureAlphaDropout(0.5), nn.Flatten()), (6, 5)),
    "MultiheadAttention": (Attention, (8, 4)),
    "TransformerEncoderLayer": (encoder_layer, (3, 4)),
    "its attention alone": (only_attention_drops, (8, 4)),
    "all but its attention": (all_but_attention_drops, (3, 4)),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(encoder_layer(), 2), (3, 4)),
    "LSTM": (lambda: Recurrent(nn.LSTM), (7, 4)),
    "GRU": (lambda: Recurrent(nn.GRU), (7, 4)),
    "RNN": (lambda: Recurrent(nn.RNN), (7, 4)),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=MODELS.values(), ids=list(MODELS))
def model_and_shape(request):
    build, shape = request.param
    return build(), shape


OWN_DRAWS = ["MultiheadAttention", "TransformerEncoderLayer", "its attention alone", "TransformerEncoder"]
OWN_DRAWS += ["LSTM", "GRU", "RNN"]
MASKED_MODELS = {name: made for name, made in MODELS.items() if name not in OWN_DRAWS}


@pytest.fixture(params=MASKED_MODELS.values(), ids=list(MASKED_MODELS))
def masked_model_and_shape(request):
    build, shape = request.param
    return build(), shape


def test_every_pass_is_one_sub_network_for_all_rows(masked_model_and_shape):
    model, shape = masked_model_and_shape
    x = torch.randn(1, *shape).expand(5, *shape)  # one sample five times
    outputs = mc_dropout(model, x, 20, seeded())
    assert outputs.shape == (20, *model.eval()(x).shape)
    torch.testing.assert_close(outputs, outputs[:, :1].expand_as(outputs))
    assert len(torch.unique(outputs[:, 0].flatten(1), dim=0)) > 10


def test_a_row_has_the_same_outputs_in_every_batch(masked_model_and_shape):
    model, shape = masked_model_and_shape
    x = torch.randn(6, *shape)
    together = mc_dropout(model, x, PASSES, seeded())
    torch.testing.assert_close(mc_dropout(model, x.flip(0), PASSES, seeded()).flip(1), together)
    torch.testing.assert_close(mc_dropout(model, x[2:3], PASSES, seeded()), together[:, 2:3])


@pytest.mark.parametrize("name", OWN_DRAWS)
def test_dropout_inside_another_kernel_draws_anew_for_each_sample_and_pass(name):
    build, shape = MODELS[name]
    x = torch.randn(1, *shape).expand(5, *shape)  # one sample five times: only masks can tell them apart
    model = build()
    outputs = mc_dropout(model, x, PASSES, seeded())
    assert outputs.shape == (PASSES, *model.eval()(x).shape)
    assert len(torch.unique(outputs.flatten(0, 1).flatten(1), dim=0)) > 15  # of 30


KINDS = {
    "Dropout": (nn.Dropout, (4, 6), 3),
    "the library's own": (Dropout, (4, 6), 3),
    "AlphaDropout": (nn.AlphaDropout, (4, 6), 3),
    "Dropout1d": (nn.Dropout1d, (2, 30, 6), 2),
    "Dropout1d, one sample": (nn.Dropout1d, (30, 6), 1),
    "Dropout2d": (nn.Dropout2d, (2, 30, 6, 7), 2),
    "Dropout2d, three dimensions": (nn.Dropout2d, (2, 30, 6), 2),
    "Dropout3d": (nn.Dropout3d, (2, 30, 2, 3, 4), 2),
    "Dropout3d, one sample": (nn.Dropout3d, (30, 2, 3, 2), 1),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout, (2, 30, 6), 2),
}


@pytest.mark.filterwarnings("ignore:dropout2d. Received a 3D input")
@pytest.mark.parametrize(("kind", "shape", "leading"), KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_values_and_whole_channels_are_dropped_as_torch_drops_them(kind, shape, leading, rate):
    module = kind(rate)
    ones = torch.ones(shape, dtype=torch.float64)  # no row of it is a row of x: dropped as it is
    outputs = mc_dropout(Calls(lambda x, drop: drop(ones) + 0 * x.sum(), module), torch.ones(3, 4), 50, seeded())
    torch.testing.assert_close(outputs.unique(), module(ones).unique(), atol=0, rtol=1e-4)  # ours rounds its rate
    first = outputs[(...,) + (slice(0, 1),) * (len(shape) - leading)]
    assert torch.equal(outputs, first.expand_as(outputs))  # nothing is dropped in part
    kept = outputs == outputs.max()
    if rate < 1:
        assert 0.6 < float(kept.double().mean()) < 0.8


def test_a_batch_that_is_flattened_or_not_in_front_has_the_same_masks_for_every_row():
    flat = Calls(lambda x, drop: drop(x.flatten(0, 1)).unflatten(0, x.shape[:2]))  # (batch · length, D)
    turned = Calls(lambda x, drop: drop(x.transpose(0, 1)).transpose(0, 1))  # (length, batch, D)
    for model in (flat, turned):
        outputs = mc_dropout(model, torch.ones(5, 3, 8), PASSES, seeded())
        assert torch.equal(outputs, outputs[:, :1].expand_as(outputs))
        assert len(torch.unique(outputs[:, 0].flatten(0, 1), dim=0)) > 10  # of 18: its own for each place


def test_a_dropout_whose_shape_follows_from_the_other_rows_draws_for_them():
    def of_all_rows(x: Tensor, drop: nn.Module) -> Tensor:
        return x + drop(torch.ones(2 * len(x) + 1, 4)).sum()

    outputs = mc_dropout(Calls(of_all_rows), torch.zeros(5, 4), PASSES, seeded())
    assert outputs.shape == (PASSES, 5, 4)
    assert len(outputs[:, 0, 0].unique()) > 1
    assert torch.equal(outputs, mc_dropout(Calls(of_all_rows), torch.zeros(5, 4), PASSES, seeded()))


@pytest.mark.parametrize("name", ["Dropout", "TransformerEncoder", "LSTM"])
def test_threads_get_the_outputs_of_a_single_one_and_change_nothing(name):
    build, shape = MODELS[name]
    model = build().train()
    x = torch.randn(16, *shape)
    expected, before = mc_dropout(model, x, PASSES, seeded()), snapshot(model)
    filters, state = list(warnings.filters), torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: mc_dropout(model, x, PASSES, seeded()), range(40)))
    assert all(torch.equal(each, expected) for each in found)
    assert snapshot(model) == before
    assert warnings.filters == filters
    assert torch.equal(torch.get_rng_state(), state)


def test_a_generator_repeats_the_passes_and_leaves_the_global_one_alone(model_and_shape):
    model, shape = model_and_shape
    x = torch.randn(4, *shape)
    before = torch.get_rng_state()
    first, again, other = (mc_dropout(model, x, PASSES, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("training", [True, False])
def test_modes_flags_and_hooks_are_as_before(model_and_shape, training):
    model, shape = model_and_shape
    model.train(training)
    list(model.modules())[-1].training = not training  # mixed modes
    before = snapshot(model)
    mc_dropout(model, torch.randn(4, *shape), 2, seeded())
    assert snapshot(model) == before


def snapshot(model: nn.Module) -> list[tuple]:
    return [
        (m.training, getattr(m, "inplace", None), len(m._forward_pre_hooks), len(m._forward_hooks))
        for m in model.modules()
    ] + [torch.backends.mha.get_fastpath_enabled()]


def test_one_generator_gives_new_passes_at_each_call():
    model, x, generator = nn.Dropout(0.5), torch.ones(4, 16), seeded()
    assert not torch.equal(mc_dropout(model, x, 3, generator), mc_dropout(model, x, 3, generator))


def test_without_a_generator_the_global_one_is_used():
    model, x = nn.Dropout(0.5), torch.ones(4, 16)
    torch.manual_seed(3)
    first, next_ = mc_dropout(model, x, 3), mc_dropout(model, x, 3)
    torch.manual_seed(3)
    assert torch.equal(mc_dropout(model, x, 3), first)
    assert not torch.equal(first, next_)


@pytest.mark.parametrize("error", [RuntimeError, ValueError, KeyboardInterrupt])
def test_a_model_that_fails_says_so_itself_and_is_left_as_it_was(error):
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:  # noqa: ARG002
            raise error("no such luck")

    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5, inplace=True), Fails())
    model[0].eval()
    x = torch.randn(4, 4)
    before, state = snapshot(model), torch.get_rng_state()
    with pytest.raises(error, match="no such luck"):
        mc_dropout(model, x, 3, seeded())
    assert snapshot(model) == before
    assert model[1].inplace
    assert torch.equal(torch.get_rng_state(), state)


def test_a_wrong_shape_inside_the_model_surfaces_as_torchs_own_error():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        mc_dropout(model, torch.randn(4, 4), 3)


def test_batch_norm_stays_in_eval():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.BatchNorm1d(6)).train()
    with torch.no_grad():
        for norm in (model[1], model[3]):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
    statistics = [buffer.clone() for buffer in model.buffers()]
    x = torch.randn(8, 4)
    outputs = mc_dropout(model, x, 40, seeded())
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), statistics, strict=True))
    assert all(norm.training for norm in (model[1], model[3]))
    # each value comes either from a dropped feature or from a doubled one, both by the running statistics
    hidden, last = model[1].eval()(model[0](x)), model[3].eval()
    dropped, kept = last(torch.zeros(8, 6)), last(2 * hidden)
    near = torch.minimum((outputs - dropped).abs(), (outputs - kept).abs())
    assert float(near.max().detach()) < 1e-5
    assert len(torch.unique(outputs[:, 0], dim=0)) > 20


def test_a_container_named_as_dropout_keeps_its_batch_norm_in_eval():
    model = FunctionalDropout().train()
    outputs = mc_dropout(model, torch.randn(8, 4), 4, dropout_types=(*DROPOUT_TYPES, FunctionalDropout))
    assert int(model.norm.num_batches_tracked) == 0
    assert not torch.equal(outputs[0], outputs[1])
    assert model.training
    assert model.norm.training


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_mean_and_variance_agree_with_theory_for_a_linear_layer_behind_dropout(rate):
    passes = 4_000
    layer = nn.Linear(6, 3).double()
    x = torch.randn(5, 6, dtype=torch.float64)
    outputs = mc_dropout(nn.Sequential(nn.Dropout(rate), layer), x, passes, seeded())
    mean = layer(x).detach()
    variance = (x.square() @ layer.weight.detach().square().T) * rate / (1 - rate)
    fourth = (outputs - mean).pow(4).mean(0)
    # 15 values each within 4.5 standard errors
    assert ((outputs.mean(0) - mean).abs() < 4.5 * (variance / passes).sqrt()).all()
    sampled = (outputs - mean).square().mean(0)
    assert ((sampled - variance).abs() < 4.5 * ((fourth - variance.square()) / passes).sqrt()).all()


def test_masks_are_independent_between_passes_and_between_values():
    kept = mc_dropout(nn.Dropout(0.5), torch.ones(1, 1000), 1000, seeded())[:, 0] / 2  # 0 or 1, (passes, values)
    for draws in (kept[:20], kept.T[:20]):
        off = torch.corrcoef(draws)[~torch.eye(20, dtype=torch.bool)]
        assert float(off.abs().max()) < 5 / math.sqrt(1000)  # a correlation of 1000 fair coins has deviation 1/√1000


def test_residual_connection_around_dropout():
    model = Calls(lambda x, drop: x + drop(3 * x))
    x = torch.randn(2, 400).double()
    outputs = mc_dropout(model, x, PASSES, seeded())
    ratio = outputs / x  # 1 where dropped, 1 + 2·3 where kept
    assert torch.unique(ratio.round(decimals=6)).tolist() == [1.0, 7.0]
    assert 0.45 < float((ratio > 4).double().mean()) < 0.55


def test_what_lies_before_the_first_dropout_runs_once_and_what_lies_behind_in_one_batch():
    model = nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)
    )
    calls = [0] * len(model)

    def count(index: int):
        def hook(*_) -> None:
            calls[index] += 1

        return hook

    for index, module in enumerate(model):
        module.register_forward_hook(count(index))
    outputs = mc_dropout(model, torch.randn(3, 4), 10, seeded())
    assert outputs.shape == (10, 3, 2)
    assert calls == [2] * len(model)  # of one row, which tells the masks' shapes, and of all of them


FALLBACKS = {
    "control flow": lambda x, drop: x + 1 if float(drop(torch.ones(64)).mean()) < 99 else drop(x),
    "a Python number": lambda x, drop: drop(x) * float(drop(torch.ones(64)).mean()),
    "numpy": lambda x, drop: torch.from_numpy(drop(x).numpy() + 0.0),
    "written into a buffer": lambda x, drop: torch.zeros_like(x).copy_(drop(x)),
    "in place on the input": lambda x, drop: x.add_(drop(3 * x)),
}


@pytest.mark.parametrize("function", FALLBACKS.values(), ids=list(FALLBACKS))
def test_a_model_that_vmap_cannot_run_gets_whole_passes(function):
    model = Calls(function)
    x = torch.randn(6, 8)
    before = x.clone()
    outputs = mc_dropout(model, x, PASSES, seeded())
    assert torch.equal(x, before)
    assert outputs.shape == (PASSES, 6, 8)
    again = mc_dropout(model, x, PASSES, seeded())
    assert torch.equal(outputs, again)


def test_whole_passes_have_the_right_values():
    x = torch.randn(50, 20).double()
    for function in (FALLBACKS["numpy"], FALLBACKS["written into a buffer"]):
        ratio = mc_dropout(Calls(function), x, PASSES, seeded()) / x
        assert torch.unique(ratio.round(decimals=6).abs()).tolist() == [0.0, 2.0]
        assert len(torch.unique(ratio[:, 0].abs(), dim=0)) == PASSES
    ratio = mc_dropout(Calls(FALLBACKS["in place on the input"]), x, PASSES, seeded()) / x
    assert torch.unique(ratio.round(decimals=6)).tolist() == [1.0, 7.0]


def test_no_warning_where_vmap_loops_over_an_operator():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mc_dropout(all_but_attention_drops(), torch.randn(4, 3, 4), 3).shape == (3, 4, 3, 4)


def test_the_models_own_warnings_are_heard():
    def warns(x: Tensor, drop: nn.Module) -> Tensor:
        warnings.warn("mind the gap", UserWarning, stacklevel=2)
        return drop(x)

    with pytest.warns(UserWarning, match="mind the gap"):
        mc_dropout(Calls(warns), torch.randn(4, 3), 3)


def test_no_gradient_is_recorded_and_gradients_stay_enabled():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    outputs = mc_dropout(model, torch.randn(3, 4, requires_grad=True), 2)
    assert not outputs.requires_grad
    assert torch.is_grad_enabled()


def test_a_single_pass_keeps_its_dimension():
    assert mc_dropout(nn.Dropout(0.5), torch.ones(4, 3), 1).shape == (1, 4, 3)


def test_ten_passes_by_default():
    assert mc_dropout(nn.Dropout(0.5), torch.ones(4, 3)).shape == (10, 4, 3)


def never_called() -> nn.Module:
    return Calls(lambda x, _: 2 * x)


def one_recurrent_layer() -> nn.Module:
    model = Recurrent(nn.LSTM)
    model.cell = nn.LSTM(4, 5, num_layers=1, batch_first=True)
    model.cell.dropout = 0.5  # torch drops between layers only, so this one never does
    return model


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.Linear(4, 3), (4,)),
        (lambda: nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 3)), (4,)),
        (lambda: encoder_layer(dropout=0.0), (3, 4)),
        (never_called, (4,)),
        (one_recurrent_layer, (3, 4)),
        (FunctionalDropout, (4,)),
    ],
    ids=["none", "rate 0", "transformer with rate 0", "never called", "LSTM of one layer", "functional, not named"],
)
def test_a_model_without_live_dropout_is_told_what_to_do(build, shape):
    with pytest.raises(InvalidStateError, match=r"no dropout fired in \w+, .* put nn.Dropout with p > 0"):
        mc_dropout(build(), torch.randn(4, *shape), 3)


@pytest.mark.parametrize("passes", [0, -1, 2.5, "3", None])
def test_fewer_than_one_pass_is_refused(passes):
    with pytest.raises(InvalidInputError, match=f"passes must be at least 1, got {passes!r}; give a whole number"):
        mc_dropout(nn.Dropout(0.5), torch.ones(4, 3), passes)


@pytest.mark.parametrize(("result", "name"), [(lambda x: (x, x), "tuple"), (lambda x: {"logits": x}, "dict")])
def test_a_model_that_returns_no_tensor_is_named(result, name):
    with pytest.raises(InvalidInputError, match=f"must return a tensor, got {name}; wrap it"):
        mc_dropout(Calls(lambda x, drop: result(drop(x))), torch.ones(4, 3), 2)


@pytest.mark.parametrize(
    ("x", "generator", "message"),
    [
        ([[1.0]], None, "x must be a torch tensor, got list; wrap it in torch.as_tensor"),
        (None, None, "x must be a torch tensor, got NoneType"),
        (torch.ones(4, 3), 7, r"generator must be a torch.Generator, got int; pass torch.Generator\(\).manual_seed"),
    ],
)
def test_input_and_generator_of_a_wrong_type_are_named(x, generator, message):
    with pytest.raises(InvalidInputError, match=message):
        mc_dropout(nn.Dropout(0.5), x, 2, generator)
