"""Predicted costs of NPU kernels and of the copies around them, for real and simulated devices."""

from __future__ import annotations

import math

from npu_tensor.dataflow.cost import Counters, Prediction
from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand, Offer
from npu_tensor.runtime.npu.packing import form_of, host_bytes
from npu_tensor.runtime.rates import NpuRates, ProcessorRates
from npu_tensor.task import Cost, Expense, Move, Task

__all__ = ["NpuCosts"]

NOTHING = Move(Expense(0.0, 0.0, 0.0))


class NpuCosts:
    """Costs of one device.

    Args:
        full_elfs: True if a launch of several configurations is a full ELF and has a hardware context of its own.
            Otherwise all launches of a plan share one context.
    """

    def __init__(self, rates: NpuRates, processor: ProcessorRates, full_elfs: bool = True) -> None:
        self.rates = rates
        self.processor = processor
        self.full_elfs = full_elfs

    @property
    def launch_cost(self) -> Expense:
        """Overhead of a launch without its kernels. The processor sleeps once the launch has begun."""
        host, on_array = self.processor.expense(self.rates.python_seconds), self._on_array(self.rates.dispatch_seconds)
        return Expense(host.seconds + on_array.seconds, host.processor_seconds, host.joules + on_array.joules)

    @property
    def switch_cost(self) -> Expense:
        """Extra cost of a launch whose configuration differs from the previous one."""
        change = self.rates.change_seconds
        return self._on_array(self.rates.switch_seconds if self.full_elfs or change is None else change)

    @property
    def reconfiguration_cost(self) -> Expense | None:
        """Cost of another configuration within a launch; None if a launch can have only one."""
        seconds = self.rates.change_seconds
        return None if seconds is None else self._on_array(seconds)

    def fetch_cost(self, nbytes: int) -> Expense:
        """Return the cost of a sync after which the host can read a result of `nbytes`."""
        return self.processor.expense(nbytes * self.rates.sync_seconds_per_byte)

    def kernel(self, task: Task, offer: Offer, counters: Counters, prediction: Prediction, context: int) -> Cost:
        """Compute the cost of a kernel from its counters and prediction, including operand transfers.

        The slowest of three limits decides: the busiest core, the busiest DMA channel, and the host memory traffic.
        """
        memory = counters.ddr_bytes / self.rates.bytes_per_second
        busy = max(prediction.compute / self.rates.core_rate, prediction.stream, memory) + self.rates.step_seconds
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
