"""docs/images/method-*.png, the pictures of docs/method.md.

python benchmarks/method_pictures.py
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from equipoise.losses import UncertaintyMarginLoss, psi
from equipoise.uncertainty import misclassification_probability

IMAGES = Path(__file__).parent.parent / "docs/images"
COMMON, RARE, OURS, INK = "#4477aa", "#cc6677", "#117733", "#333333"
CENTRE, COMMON_SAMPLES, RARE_SAMPLES = 1.25, 1000, 20


def clouds(common: int, rare: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two Gaussians of unit variance whose best line is x = 0."""
    y = np.repeat([0, 1], [common, rare])
    x = np.random.default_rng(seed).normal(size=(len(y), 2))
    x[:, 0] += np.where(y == 1, CENTRE, -CENTRE)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def trained(share: float) -> nn.Module:
    """x -> logit of the rare class less that of the common one, trained with a share of the margin that counts give."""
    torch.manual_seed(0)
    x, y = clouds(COMMON_SAMPLES, RARE_SAMPLES, seed=0)
    body = nn.Linear(2, 8)  # straight boundaries: nothing else must move
    loss = UncertaintyMarginLoss(8, 2, normalize=False)
    loss.margins = torch.tensor([1.0, 3.0])
    loss.strength = share * float(np.log(COMMON_SAMPLES / RARE_SAMPLES)) / 2
    optimizer = torch.optim.AdamW([*body.parameters(), *loss.parameters()], lr=0.02, weight_decay=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        loss(body(x), y).backward()
        optimizer.step()
    return nn.Sequential(body, _Difference(loss)).eval()


class _Difference(nn.Module):
    """The margin of a prediction between two classes."""

    def __init__(self, loss: UncertaintyMarginLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits = self.loss.logits(features)
        return logits[:, 1] - logits[:, 0]


@torch.no_grad()
def margins_picture() -> Figure:
    """The boundary, from no margin to the full one."""
    figure = Figure(figsize=(6.4, 5.8), layout="constrained")  # two by two: legible on a phone
    across, up = np.meshgrid(np.linspace(-4, 4, 161), np.linspace(-3, 3, 121))
    grid = torch.tensor(np.column_stack([across.ravel(), up.ravel()]), dtype=torch.float32)
    x, y = clouds(COMMON_SAMPLES, RARE_SAMPLES, seed=0)
    x_new, y_new = clouds(4000, 4000, seed=1)
    for axes, share in zip(figure.subplots(2, 2).flat, (0.0, 1 / 3, 2 / 3, 1.0), strict=True):
        with torch.enable_grad():
            model = trained(share)
        level = model(grid).numpy().reshape(across.shape)
        axes.contourf(across, up, level, levels=[-1e9, 0, 1e9], colors=[COMMON, RARE], alpha=0.15)
        axes.contour(across, up, level, levels=[0.0], colors=INK, linewidths=2)
        axes.scatter(*x[y == 0].T, s=2, color=COMMON, alpha=0.4, linewidths=0)
        axes.scatter(*x[y == 1].T, s=14, color=RARE, linewidths=0)
        axes.axvline(0, color=INK, linestyle=":", linewidth=1)
        found = [float(((model(x_new[y_new == c]) > 0) == bool(c)).float().mean()) for c in (1, 0)]
        name = {0.0: "no margin", 1.0: "full margin"}.get(share, f"{share:.0%} of the margin")
        axes.set_title(f"{name}\nfound: rare {found[0]:.0%}, common {found[1]:.0%}")
        axes.set(aspect="equal", xlim=(-4, 4), ylim=(-3, 3), xticks=[], yticks=[])
    return figure


def psi_picture() -> Figure:
    """ψ over the angle, for some margins."""
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    angle = torch.linspace(0, torch.pi, 400, dtype=torch.float64)
    for margin, colour in ((1.0, INK), (1.5, COMMON), (2.0, OURS), (3.0, RARE)):
        axes.plot(angle.rad2deg(), psi(angle.cos(), margin), color=colour, label=f"m = {margin:g}")
    axes.set(xlabel="angle between sample and class vector, degrees", ylabel="ψ", xticks=range(0, 181, 45))
    axes.legend(frameon=False, fontsize="small")
    return figure


def sample_picture() -> Figure:
    """The error of three samples as a Gaussian; the shaded part is the probability of a mistake."""
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")  # one below the other: legible on a phone
    at = np.linspace(-8, 6, 500)
    cases = (("sure and right", -4.0, 0.8), ("right, but unsure", -1.5, 1.8), ("likely wrong", 1.0, 1.8))
    for axes, (title, mean, deviation) in zip(figure.subplots(3, 1, sharex=True, sharey=True), cases, strict=True):
        density = np.exp(-(((at - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
        chance = misclassification_probability(torch.tensor(mean), torch.tensor(deviation**2))
        axes.plot(at, density, color=INK)
        axes.fill_between(at, density, where=at >= 0, color=RARE, alpha=0.5, linewidth=0)
        axes.axvline(0, color=INK, linestyle=":")
        axes.set(title=f"{title}: F̂ = {float(chance):.2f}", yticks=[])
    axes.set(xlabel="rival's logit less the true one's")
    return figure


def main() -> None:
    """Draw all."""
    IMAGES.mkdir(exist_ok=True)
    for name, draw in (("margins", margins_picture), ("psi", psi_picture), ("sample", sample_picture)):
        draw().savefig(IMAGES / f"method-{name}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
