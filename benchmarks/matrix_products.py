"""The matrix products of a training step, timed alone: how fast a step could be if it did nothing else."""

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
SQUARE = 1024
"""Side of the large product that is reported beside those of the step's own shapes."""


class Product(NamedTuple):
    """(rows, inner) times (inner, columns)."""

    rows: int
    inner: int
    columns: int

    @property
    def flop(self) -> int:
        return 2 * self.rows * self.inner * self.columns


class Products(TorchDispatchMode):
    """Counts the products of everything that runs inside; a convolution counts as the product of its im2col matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[Product] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        done = function(*args, **(kwargs or {}))
        self.found.update(_products(function, args, done))
        return done

    @property
    def flop(self) -> int:
        return sum(product.flop * times for product, times in self.found.items())


def _products(function: Any, args: Any, done: Any) -> Iterator[Product]:
    if function in (aten.mm.default, aten.addmm.default):
        left, right = args[-2:]
        yield Product(*left.shape, right.shape[1])
    elif function == aten.convolution.default:
        yield _im2col(args[1], done)
    elif function == aten.convolution_backward.default:
        out, inner, columns = _im2col(args[2], args[0])
        wants_input, wants_weight, _ = args[-1]
        if wants_input:
            yield Product(inner, out, columns)
        if wants_weight:
            yield Product(out, columns, inner)


def _im2col(weight: Tensor, output: Tensor) -> Product:
    """The weights, (filters, channels · kernel), times the patches, (channels · kernel, images · places)."""
    return Product(weight.shape[0], math.prod(weight.shape[1:]), output.numel() // output.shape[1])


def cpu_seconds(work: Callable[[], object], times: int = 1) -> float:
    """CPU time of one call, which a busy machine does not stretch much."""
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


def sgemm(found: Counter[Product]) -> Callable[[], None]:
    """Return work that does these products and nothing else, each on operands of its own, as a step does."""
    ready = [
        (torch.randn(each.rows, each.inner), torch.randn(each.inner, each.columns), torch.empty(each[0], each[2]))
        for each in found.elements()
    ]

    def work() -> None:
        for left, right, out in ready:
            torch.mm(left, right, out=out)

    return work


def beside_its_products(step: Callable[[], object], *, rounds: int = 11, times: int = 1) -> dict[str, float]:
    """Time a step, its products alone and one large product in turns; shares are medians of the rounds' own."""
    step()
    with Products() as products:
        step()
    works = {"step": step, "products": sgemm(products.found), "large": sgemm(Counter([Product(*[SQUARE] * 3)]))}
    taken = [{name: cpu_seconds(work, times) for name, work in works.items()} for _ in range(rounds + 1)][1:]
    median = {name: statistics.median(each[name] for each in taken) for name in works}
    gflop, large = products.flop / 1e9, 2e-9 * SQUARE**3
    return {
        "gflop_per_step": round(gflop, 4),
        "milliseconds_per_step": round(median["step"] * 1e3, 3),
        "milliseconds_of_its_products": round(median["products"] * 1e3, 3),
        "gflops": round(gflop / median["step"], 1),
        "gflops_of_its_products": round(gflop / median["products"], 1),
        "gflops_of_a_large_product": round(large / median["large"], 1),
        "share": round(statistics.median(each["products"] / each["step"] for each in taken), 3),
        "share_of_a_large_product": round(
            statistics.median(gflop / each["step"] * each["large"] / large for each in taken), 3
        ),
    }
