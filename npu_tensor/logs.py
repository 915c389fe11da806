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


def follow_setting() -> None:
    """Begin or end to log all events, as `config.log` says; to stderr, unless the program has set up logging."""
    wanted, logs_now = config.log, log in events.listeners
    if wanted and not logs_now:
        _logger.setLevel(logging.DEBUG)
        if not _logger.hasHandlers():
            _logger.addHandler(logging.StreamHandler())
        events.listeners.append(log)
    elif logs_now and not wanted:
        events.listeners.remove(log)
