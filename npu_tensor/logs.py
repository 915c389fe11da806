"""The logger "npu_tensor": one line per event, if NPU_TENSOR_LOG asks for it.

with events.listen(logs.log):  # whatever the setting
    y.realize()
"""

from __future__ import annotations

import logging

from npu_tensor import events
from npu_tensor.config import config

__all__ = ["follow_setting", "log"]

_logger = logging.getLogger("npu_tensor")


def log(event: events.Event) -> None:
    """Write an event to the logger, at level DEBUG."""
    _logger.debug("%s", event)


def _follow(wanted: bool) -> None:
    """Begin or end to log all events; to stderr, unless the program has set up logging."""
    logs_now = log in events.listeners
    if wanted and not logs_now:
        _logger.setLevel(logging.DEBUG)
        if not _logger.hasHandlers():
            _logger.addHandler(logging.StreamHandler())
        events.listeners.append(log)
    elif logs_now and not wanted:
        events.listeners.remove(log)


config.follow("log", _follow)


def follow_setting() -> None:
    """Read `config.log`, unless it was read before; whatever it becomes later is followed by itself."""
    _follow(config.log)
