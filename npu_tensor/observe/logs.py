"""The logger "npu_tensor": one line per event, if NPU_TENSOR_LOG asks for it.

with events.listen(logs.log):  # whatever the setting
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
    """The setting's own, so that it never ends what a program has begun with `log`."""
    if config.log:
        log(event)


def follow() -> None:
    """Log all events while `config.log` asks for it; to stderr, unless the program has set up logging."""
    if events.keep_listening(_listener, config.in_use("log")):
        _logger.setLevel(logging.DEBUG)
        if not _logger.hasHandlers():
            _logger.addHandler(logging.StreamHandler())
