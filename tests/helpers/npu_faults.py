"""Faults of an NPU in tests."""

import enum
import threading
from collections.abc import Callable
from typing import Final


class Fault(enum.Enum):
    """Kind of fault."""

    ERROR = "the launch ends in state ERROR, and its outputs hold garbage"
    TIMEOUT = "the same in state TIMEOUT, and what is queued behind it in the context is aborted"
    HANG = "the launch never ends, nor does what is queued behind it in the context"
    GARBAGE = "the launch ends, and its outputs hold garbage"
    START = "the launch is not taken"
    LOST = "the device is gone when the launch is handed over"
    CONTEXT = "the next context is refused as at the limit"
    MEMORY = "there is no memory the next time that some is asked for"
    BAD_ALLOC = "the same, and nobody says why"


LAUNCH_FAULTS: Final = (Fault.ERROR, Fault.TIMEOUT, Fault.HANG, Fault.GARBAGE, Fault.START, Fault.LOST)


class Faults:
    """Faults of an NPU.

    Attributes:
        launches: Number of submitted launches, including failed submissions.
        faults: Function that returns the fault of a launch by its number, counted from 0, or of the context or memory
            after it.
        injected: Each injected fault, with the number of successes before it.
    """

    def __init__(self) -> None:
        self.launches = 0
        self.faults: Callable[[int], Fault | None] | None = None
        self.injected: list[tuple[Fault, int]] = []
        self.lock = threading.RLock()

    def inject(self, fault: Fault, after: int = 0, times: int = 1) -> None:
        """Inject a fault after `after` successes of the operations that it affects."""
        with self.lock:
            self.injected += [(fault, after + number) for number in range(times)]

    def due(self, *faults: Fault) -> Fault | None:
        """Return the one of these faults that is due now, if any."""
        if not self.injected:
            return None
        with self.lock:
            result = next((fault for fault, after in self.injected if fault in faults and not after), None)
            if result is not None:
                self.injected.remove((result, 0))
            self.injected = [(fault, after - (after > 0 and fault in faults)) for fault, after in self.injected]
        return result

    def launch_fault(self) -> Fault | None:
        """Return the fault of the launch that is submitted now."""
        with self.lock:
            number, self.launches = self.launches, self.launches + 1
            result = self.due(*LAUNCH_FAULTS)
            if result is None and self.faults is not None:
                result = self.faults(number)
                if result is not None and result not in LAUNCH_FAULTS:
                    self.inject(result)
                    return None
            return result
