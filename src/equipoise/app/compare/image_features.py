"""Images as features of a frozen backbone, extracted once for all methods, within the budget."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from equipoise.app.compare.deadline import Deadline, OutOfTimeError
from equipoise.app.compare.single_fit import Prepare
from equipoise.data.samples import Samples
from equipoise.training.resume import checksum
from equipoise.wording import duration

Reading = Callable[[int, int], None]
"""Called with the number of images done, and their total."""


def with_features(
    samples: Samples, prepare: Prepare, limit: Deadline | None, reading: Reading | None
) -> tuple[Samples, str | None]:
    """Return the samples as features of a frozen backbone or unchanged, and what identifies a trained backbone.

    A backbone that is trained is identified by the weights it begins with. Extraction ends as soon as it is clear that
    the limit will not be kept.
    """
    if samples.x.ndim == 2:
        return samples, None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made: Any = prepare(samples.x)
    if made.backbone is not None:
        return samples, checksum(tensor for _, tensor in sorted(made.backbone.state_dict().items()))
    if limit is None:
        made.progress = reading
        return replace(samples, x=made.rows(samples.x)), None
    pace = made.progress = Pace(limit, reading)
    try:
        return replace(samples, x=limit.call(lambda: made.rows(samples.x))), None
    except OutOfTimeError:
        raise OutOfTimeError(pace.sentence()) from None


class Pace:
    """Measures how fast images are processed, and raises once they cannot all be done by the ``limit``."""

    def __init__(self, limit: Deadline, reading: Reading | None) -> None:
        self.limit, self.reading = limit, reading
        self.first: tuple[float, int] | None = None  # the first batch warms up
        self.needed = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Record how many images are done, of how many."""
        if self.reading is not None:
            self.reading(done, total)
        now = self.limit.clock()
        if self.first is None or self.first[1] == 0:
            self.first = now, done
        elif done > self.first[1]:
            self.needed = (now - self.first[0]) / (done - self.first[1]) * (total - done)
        if self.needed > self.limit.left:
            raise OutOfTimeError(self.sentence())

    def sentence(self) -> str:
        """Return a sentence on the missing time, and what to do."""
        missing = f"about {duration(self.needed)} more" if self.needed > 0 else "longer"
        return (
            f"extracting the image features takes {missing}, and the budget leaves less; give more minutes: finished "
            "features are kept, and the same command continues from there."
        )
