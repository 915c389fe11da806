"""A warning about writes that nobody can see, because the tensor that is written to has no name.

    a[0][1] = 5        # a[0] is a value of its own, as views never alias: write a[0, 1] = 5
    a[0].fill_(5)      # likewise: write a[0] = 5

A write is lost for certain if nothing but the call itself refers to the tensor, and its result is dropped. The first is
a matter of counting references, the second of the instruction after the call.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType
from typing import Final

from npu_tensor.user_warnings import users_frame, warn

__all__ = ["UNNAMED", "warn_if_lost"]

# Python 3.14 does not count references from the stack to local variables, so that a name would not be told from none.
_COUNTS: Final = sys.implementation.name == "cpython" and sys.version_info < (3, 14)

UNNAMED: Final = 4 if _COUNTS else 0
"""What sys.getrefcount says, inside `Tensor._assign` or `Tensor.__setitem__`, of a tensor that only the call refers to:
of in-place methods the arguments of the public function, those of its body, `_assign` and getrefcount; of
`__setitem__` the stack of the caller, and the first two and the last of these. Arguments by name add one, which lets
such writes pass."""


def warn_if_lost(*, item: bool) -> None:
    """Issue a UserWarning if the user's line is a[i] = v (`item`), or drops the result of a method.

    To be called for tensors without a name only.
    """
    frame, _ = users_frame()
    if _is_statement(frame.f_code, frame.f_lasti, item):
        warn(
            "this write is lost: it changes a tensor that has no name, and views never alias here. Assign to an index "
            "of the tensor itself, as a[0, 1] = 5 in place of a[0][1] = 5, or a[0] = 5 in place of a[0].fill_(5)",
            UserWarning,
        )


@lru_cache(maxsize=1024)
def _is_statement(code: CodeType, offset: int, item: bool) -> bool:
    """Whether the instruction is an item assignment, or else a call whose result is popped off the stack."""
    instructions = list(dis.get_instructions(code))
    # In a frame that waits for a call, the offset may be that of the last cache entry after the instruction.
    index = max(number for number, instruction in enumerate(instructions) if instruction.offset <= offset)
    if item:
        return instructions[index].opname == "STORE_SUBSCR"
    return instructions[index].opname == "CALL" and instructions[index + 1].opname == "POP_TOP"
