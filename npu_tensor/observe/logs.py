"""Logger "npu_tensor" with one line per event, enabled by NPU_TENSOR_LOG.

with events.listen(logs.log):  # independent of the setting
    y.realize()
"""

from __future__ import annotations

import logging

from npu_tensor import events
from npu_tensor.config import config

__all__ = ["follow", "log"]

_logger = logging.getLogger("npu_tensor")


def log(event: events.Event) -> None:
    """Write an event to the logger, at level DEBUG."""
    _logger.debug("%s", event)


def _listener(event: events.Event) -> None:
    """Log an event for the setting. Separate from `log`, so that a program can listen with `log` independently."""
    if config.log:
        log(event)


def follow() -> None:
    """Log all events while `config.log` is set. Without handlers of the program, the output goes to stderr."""
    if events.keep_listening(_listener, config.in_use("log")):
        _logger.setLevel(logging.DEBUG)
        if not _logger.hasHandlers():
            _logger.addHandler(logging.StreamHandler())
