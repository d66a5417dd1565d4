"""One run trained by several processes together, as torchrun and ``accelerate launch`` start them."""

import os


def is_main() -> bool:
    """Whether this process writes the run's folder and speaks for all of them; one that is alone does."""
    return not are_several() or os.environ.get("RANK", "0") == "0"


def wait_for_all() -> None:
    """Go on when every process has come so far; one that is alone does not wait."""
    if not are_several():
        return
    from equipoise.training import Settings
    from equipoise.training.engine import make_accelerator

    make_accelerator(Settings(epochs=1, batch_size=1), None, None).wait_for_everyone()


def are_several() -> bool:
    """A variable alone may be another program's; both launchers set these two."""
    return "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
