"""Designs in the simulated array of an NPU.

    loaded = load(npu, image)
    give_back(npu, image, loaded)       # when the context goes: loading takes milliseconds, and the next one takes it
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from machine import Npu
from npu_images import Image

from npu_tensor.runtime.sim.simulated_array import LoadedConfiguration, LoadedDesign, SimulatedArray

__all__ = ["give_back", "load"]


class _Simulation:
    """The array of one NPU. idle: designs that no context holds, by digest."""

    def __init__(self, npu: Npu) -> None:
        self.array = SimulatedArray(npu.array)
        self.idle: dict[str, LoadedDesign] = {}


_simulations: WeakKeyDictionary[Npu, _Simulation] = WeakKeyDictionary()
_checked: set[str] = set()
"""Digests of designs that were found within the limits of the array."""


def load(npu: Npu, image: Image) -> LoadedDesign:
    """The design of an image, as after a reset. Raises BuildError."""
    simulation = _simulations.get(npu)
    if simulation is None:
        simulation = _simulations[npu] = _Simulation(npu)
    loaded = simulation.idle.pop(image.digest, None)
    if loaded is None:
        if image.digest in _checked:
            configuration = LoadedConfiguration(simulation.array, image.design, image.entries)
            loaded = LoadedDesign(configuration, image.design, strict=True)
        else:
            loaded = simulation.array.load(image.design, entries=image.entries)
            _checked.add(image.digest)
    return loaded


def give_back(npu: Npu, image: Image, loaded: LoadedDesign) -> None:
    """Keep a design that is not used any more, unless its cores have memory that a reset would clear."""
    simulation = _simulations.get(npu)
    if simulation is not None and not image.design.core_buffers:
        simulation.idle[image.digest] = loaded
