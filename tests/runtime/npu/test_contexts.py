"""Contexts that are kept, and the order in which they are closed."""

import numpy as np
import pytest
from faulty_npu import FaultyNpu
from npu_values import joined
from running import heard, needs_compiler

from npu_tensor.events import ContextClosed, ContextOpened

pytestmark = needs_compiler


@pytest.mark.parametrize(("npu", "limit"), [("sim:npu1", 6), ("sim:npu2", 16)], indirect=["npu"])
def test_as_many_contexts_are_kept_as_the_driver_allows(npu: FaultyNpu, limit: int) -> None:
    """On the first generation, all contexts are closed for a new one: the remaining ones would fail."""
    npu.context_limit = limit
    numbers: dict[str, int] = {}

    def compute(number: int, seed: int = 0) -> list[tuple[str, int, int]]:
        """Return the contexts that are closed and opened meanwhile, each with the number of contexts afterwards."""
        result, expected = joined(number, seed)
        with heard(ContextOpened, ContextClosed) as seen:
            np.testing.assert_array_equal(result.numpy(), expected)
        numbers.update({event.kernel: number for event in seen if isinstance(event, ContextOpened)})
        return [(type(event).__name__, numbers[event.kernel], event.contexts) for event in seen]

    for number in range(limit):
        assert len(compute(number)) == 1
    assert npu.live_contexts == limit
    given_up = limit if limit == 6 else 1
    closed = [("ContextClosed", number, limit - 1 - number) for number in range(given_up)]
    assert compute(limit) == [*closed, ("ContextOpened", limit, limit - given_up + 1)]
    for number in range(limit + 1):
        compute(number, seed=1)
    assert npu.live_contexts <= limit
