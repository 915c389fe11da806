"""Predicted costs of NPU kernels and of the copies around them, for real and simulated devices."""

from __future__ import annotations

import math

from npu_tensor.dataflow.array import Array
from npu_tensor.dataflow.cost import Counters, Prediction
from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.runtime.npu.packing import form_of, host_bytes
from npu_tensor.runtime.rates import NpuRates, ProcessorRates
from npu_tensor.task import Cost, Expense, Move, Task

NOTHING = Move(Expense(0.0, 0.0, 0.0))


def kernel_seconds(rates: NpuRates, array: Array, counters: Counters, prediction: Prediction) -> float:
    """Return the seconds of a kernel on an NPU with some rates, predicted from its prediction for the array."""
    cycles = max(prediction.compute / rates.core_rate, prediction.stream, prediction.control)
    slower = array.clock_hz / rates.clock_hz
    words = counters.parameter_words * array.parameter_seconds  # does not depend on the clock
    busy = max(cycles * slower, counters.ddr_bytes / rates.ddr_bytes_per_second)
    return busy + (prediction.overhead - words) * slower + words


class NpuCosts:
    """Costs of one device.

    A launch of several configurations that is a full ELF has a hardware context of its own. On other arrays, all
    launches of a plan share one context.
    """

    def __init__(self, rates: NpuRates, processor: ProcessorRates, target: Target) -> None:
        self.rates = rates
        self.processor = processor
        self.target = target

    @property
    def launch_cost(self) -> Expense:
        """Overhead of a launch without its kernels. The processor sleeps once the launch has begun."""
        host, on_array = self.processor.expense(self.rates.python_seconds), self._on_array(self.rates.dispatch_seconds)
        return Expense(host.seconds + on_array.seconds, host.processor_seconds, host.joules + on_array.joules)

    @property
    def switch_cost(self) -> Expense:
        """Extra cost of a launch whose configuration differs from the previous one."""
        rates = self.rates
        if self.target.array.full_elfs or rates.change_seconds is None:
            return self._on_array(rates.switch_seconds + self.target.columns * rates.switch_column_seconds)
        return self._on_array(rates.change_seconds)

    @property
    def reconfiguration_cost(self) -> Expense | None:
        """Cost of another configuration within a launch; None if a launch can have only one."""
        seconds = self.rates.change_seconds
        return None if seconds is None else self._on_array(seconds)

    def fetch_cost(self, nbytes: int) -> Expense:
        """Return the cost of a sync after which the host can read a result of `nbytes`."""
        return self.processor.expense(nbytes * self.rates.sync_seconds_per_byte)

    def kernel(self, task: Task, offer: Offer, counters: Counters, prediction: Prediction, context: int) -> Cost:
        """Compute the cost of a kernel from its counters and prediction, including operand transfers."""
        busy = kernel_seconds(self.rates, self.target.array, counters, prediction) + self.rates.step_seconds
        reads = tuple(
            self._move([host for host in offer.operands if host.number == number and not host.output], source.dtype)
            for number, source in enumerate(task.inputs)
        )
        writes = tuple(
            self._move([host for host in offer.operands if host.number == number and host.output], output.dtype)
            for number, output in enumerate(task.outputs)
        )
        return Cost(self._on_array(busy), counters.ddr_bytes, context, reads, writes)

    def _on_array(self, seconds: float) -> Expense:
        """Return the expense of time during which the CPU sleeps."""
        return Expense(seconds, 0.0, seconds * self.rates.watts)

    def _move(self, hosts: list[HostOperand], dtype: DType | None) -> Move:
        """Compute the cost of moving a tensor between its own buffer and its host buffers. Scalars cost nothing."""
        if dtype is None or not hosts:
            return NOTHING
        rates, seconds, forms = self.rates, 0.0, []
        for host in hosts:
            form, elements = form_of(host, dtype), math.prod(host.layout.shape)
            forms.append(form)
            if form is not None:
                seconds += math.prod(host.padded) / rates.converted_elements
            elif not host.output:  # The host reads such a result in place.
                seconds += elements * dtype.itemsize / rates.copied_bytes
            seconds += host_bytes(host) * rates.sync_seconds_per_byte
        # Kernels share a copy in several buffers only if they need all of them in the same form.
        return Move(self.processor.expense(seconds), forms[0] if len(set(forms)) == 1 else tuple(forms))
