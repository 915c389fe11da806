"""The logger "npu_tensor": one line per event, if NPU_TENSOR_LOG asks for it.

with events.listen(logs.log):  # whatever the setting
    y.realize()
"""

from __future__ import annotations

import logging
from functools import partial

from npu_tensor import events

__all__ = ["follow", "log"]

_logger = logging.getLogger("npu_tensor")


def log(event: events.Event) -> None:
    """Write an event to the logger, at level DEBUG."""
    _logger.debug("%s", event)


_listener = partial(log)
"""The setting's own, so that it never ends what a program has begun with `log`."""


def follow(wanted: bool) -> None:
    """Begin or end to log all events, as `config.log` says; to stderr, unless the program has set up logging."""
    if events.keep_listening(_listener, wanted):
        _logger.setLevel(logging.DEBUG)
        if not _logger.hasHandlers():
            _logger.addHandler(logging.StreamHandler())
