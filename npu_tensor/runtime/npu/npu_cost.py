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
    """The costs of one device. rates: of the NPU; processor: of its host.

    full_elfs: whether a launch of several configurations has a context of its own, as it is a full ELF. Else all of a
    plan share one, where a launch can have several.
    """

    def __init__(self, rates: NpuRates, processor: ProcessorRates, full_elfs: bool = True) -> None:
        self.rates = rates
        self.processor = processor
        self.full_elfs = full_elfs

    @property
    def launch(self) -> Expense:
        """What a launch takes besides its kernels. The processor sleeps once it has begun."""
        host, on_array = self.processor.expense(self.rates.python_seconds), self._on_array(self.rates.dispatch_seconds)
        return Expense(host.seconds + on_array.seconds, host.processor_seconds, host.joules + on_array.joules)

    @property
    def switch(self) -> Expense:
        """What a launch takes more behind one of other configurations, mostly in another hardware context."""
        change = self.rates.change_seconds
        return self._on_array(self.rates.switch_seconds if self.full_elfs or change is None else change)

    @property
    def change(self) -> Expense | None:
        """What another configuration within a launch takes, if there can be one."""
        seconds = self.rates.change_seconds
        return None if seconds is None else self._on_array(seconds)

    def fetch(self, nbytes: int) -> Expense:
        """What it takes until the host sees a result that it can read where it is."""
        return self.processor.expense(nbytes * self.rates.sync_seconds_per_byte)

    def kernel(self, task: Task, offer: Offer, counters: Counters, prediction: Prediction, context: int) -> Cost:
        """Of a kernel whose design counts and predicts that, with what moves its operands.

        The array works as long as the slowest of: the busiest core and the busiest DMA channel of the design, and its
        traffic with the host memory.
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
        """Of what the processor sleeps through."""
        return Expense(seconds, 0.0, seconds * self.rates.watts)

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
