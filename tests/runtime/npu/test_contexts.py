"""Contexts that are kept, and the order in which they are closed."""

from typing import Any

import numpy as np
import pytest
from faulty_npu import FaultyNpu
from npu_values import joined
from running import heard, needs_compiler

from npu_tensor.events import ContextClosed, ContextOpened

pytestmark = needs_compiler


class Loading:
    """Which contexts were opened and closed meanwhile, by the number of the kernel that `joined` makes."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.seen: list[Any] = []

    def compute(self, number: int, seed: int = 0) -> None:
        result, expected = joined(number, seed)
        with heard(ContextOpened, ContextClosed) as seen:
            np.testing.assert_array_equal(result.numpy(), expected)
        opened = [event.kernel for event in seen if isinstance(event, ContextOpened)]
        assert len(opened) <= 1
        self.names |= dict.fromkeys(opened, number)
        self.seen += seen

    def taken(self) -> list[tuple[str, int, int]]:
        """Return the events since the last call, each with the number of contexts afterwards."""
        result = [
            ("open" if isinstance(event, ContextOpened) else "close", self.names[event.kernel], event.contexts)
            for event in self.seen
        ]
        self.seen = []
        return result


@pytest.mark.parametrize(("npu", "limit"), [("sim:npu1", 6), ("sim:npu2", 16)], indirect=["npu"])
def test_as_many_contexts_are_kept_as_the_driver_allows(npu: FaultyNpu, limit: int) -> None:
    """On the first generation, all contexts are closed for a new one: the remaining ones would fail."""
    npu.context_limit = limit
    loading = Loading()
    for number in range(limit):
        loading.compute(number)
    assert npu.live_contexts == limit
    loading.taken()
    loading.compute(limit)
    given_up = limit if limit == 6 else 1
    closed = [("close", number, limit - 1 - number) for number in range(given_up)]
    assert loading.taken() == [*closed, ("open", limit, limit - given_up + 1)]
    for number in range(limit + 1):
        loading.compute(number, seed=1)
    assert npu.live_contexts <= limit
