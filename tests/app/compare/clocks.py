"""Clocks that do not depend on the speed of the machine."""

import threading


class HandClock:
    """Stands still unless a test moves it; ``interrupt`` makes the main thread's next look a Ctrl-C."""

    def __init__(self, now=0.0):
        self.now, self.interrupt = now, False

    def __call__(self):
        if self.interrupt and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return self.now


class StepClock:
    """Moves by a second whenever a fit looks at it, which it does at every training step, and for nobody else."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        if threading.current_thread() is not threading.main_thread():
            self.now += 1.0
        return self.now
