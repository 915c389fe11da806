"""Which release is stood in for, and the parts that have no counterpart in mlir-aie."""

from __future__ import annotations

import os

__all__ = ["COMMITS", "OMIT", "RELEASES", "VERSION", "since"]

COMMITS = {
    "1.3.4": "ed23bba7381b6f0680775fd3b6110d9268d27f43",
    "1.4.0": "db06374df9bf83d9fc557001ca213368aed15788",
    "1.4.1": "601fc859532f2539bebb33ac89139584c76ae8a2",
}
"""Where each release was read."""

RELEASES = tuple(COMMITS)

OMIT = "AIE_STANDIN_OMIT"
"""Variable: what is left out without an error, see aie.utils.compile, and "load_pdi", out of sequences of full ELFs."""

_asked = os.environ.get("AIE_STANDIN_VERSION", "1.4")
VERSION = {"1.3": "1.3.4", "1.4": "1.4.1"}.get(_asked, _asked)
if VERSION not in COMMITS:
    raise ImportError(f"AIE_STANDIN_VERSION is {_asked!r}; there are stand-ins for {', '.join(RELEASES)}")


def since(release: str) -> bool:
    """Whether the release that is stood in for is that one or a later one."""
    return RELEASES.index(VERSION) >= RELEASES.index(release)
