"""A clock that only waiting moves."""


class Clock:
    """Stands for the module time on a machine on which nothing but waiting takes time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.shortest = 1e-3

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, self.shortest)
