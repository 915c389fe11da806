"""What kernels of an NPU, and the copies around them, are predicted to take; for simulated ones as for real ones."""

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
    """The costs of one device. rates: of the NPU; processor: of its host."""

    def __init__(self, rates: NpuRates, processor: ProcessorRates) -> None:
        self.rates = rates
        self.processor = processor

    @property
    def launch(self) -> Expense:
        """What the smallest kernel takes."""
        return self._run(0.0)

    @property
    def switch(self) -> Expense:
        """What changing the hardware context takes. The processor sleeps until it is done."""
        seconds = self.rates.switch_seconds
        return Expense(seconds, 0.0, seconds * self.rates.watts)

    def fetch(self, nbytes: int) -> Expense:
        """What it takes until the host sees a result that it can read where it is."""
        return self.processor.expense(nbytes * self.rates.sync_seconds_per_byte)

    def kernel(self, task: Task, offer: Offer, counters: Counters, prediction: Prediction, context: int) -> Cost:
        """Of a kernel whose design counts and predicts that, with what moves its operands.

        The array works as long as the slowest of: the busiest core and the busiest DMA channel of the design, and its
        traffic with the host memory.
        """
        memory = counters.ddr_bytes / self.rates.bytes_per_second
        busy = max(prediction.compute / self.rates.core_rate, prediction.stream, memory)
        reads = tuple(
            self._move([host for host in offer.operands if host.number == number and not host.output], source.dtype)
            for number, source in enumerate(task.inputs)
        )
        writes = tuple(
            self._move([host for host in offer.operands if host.number == number and host.output], output.dtype)
            for number, output in enumerate(task.outputs)
        )
        return Cost(self._run(busy), counters.ddr_bytes, context, reads, writes)

    def _run(self, busy: float) -> Expense:
        """Of a launch that keeps the array busy for so long. The processor sleeps once the launch has begun."""
        rates = self.rates
        host = self.processor.expense(rates.python_seconds)
        on_device = rates.dispatch_seconds + busy
        return Expense(host.seconds + on_device, host.processor_seconds, host.joules + on_device * rates.watts)

    def _move(self, hosts: list[HostOperand], dtype: DType | None) -> Move:
        """Of a tensor into the host buffers that hold it, or out of the one that does; a number takes nothing."""
        if dtype is None or not hosts:
            return NOTHING
        rates, seconds, forms = self.rates, 0.0, []
        for host in hosts:
            form, elements = form_of(host, dtype), math.prod(host.layout.shape)
            forms.append(form)
            if form is not None:
                seconds += math.prod(host.padded) / rates.converted_elements
            elif not host.output:  # The host reads such a result where it is.
                seconds += elements * dtype.itemsize / rates.copied_bytes
            seconds += host_bytes(host) * rates.sync_seconds_per_byte
        # A tensor that fills several buffers is shared by those that want all of them in the same way.
        return Move(self.processor.expense(seconds), forms[0] if len(set(forms)) == 1 else tuple(forms))
