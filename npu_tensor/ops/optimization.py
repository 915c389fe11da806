"""Updates of optimizers: one op for each tensor that a step writes."""

from __future__ import annotations

import numpy as np

from npu_tensor.ops import rules
from npu_tensor.ops.registry import op


@op(kind="map", rule=rules.floating, public=False)
def moving_average(average, value, decay, rest, /):
    """Return average * decay + value * rest."""
    return average * decay + value * rest


@op(kind="map", rule=rules.floating, public=False)
def moving_square(average, value, decay, rest, /):
    """Return average * decay + value * value * rest."""
    return average * decay + value * value * rest


@op(kind="map", rule=rules.floating, ggml="OPT_STEP_ADAMW", domain=(0.1, 0.9), public=False)
def opt_step_adam(parameter, average, square, step, rate, first, second, eps, /):
    """Return the parameter after a step of Adam, from the moving averages of its gradient and of the square of that.

    step counts this step; first and second are the decays of the averages.
    """
    scale = np.sqrt(1 - np.power(second, step))
    return parameter - average / (np.sqrt(square) / scale + eps) * (rate / (1 - np.power(first, step)))
