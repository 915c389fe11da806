"""Designs in the simulated array of an NPU.

    loaded = load(npu, image)
    give_back(npu, image, loaded)       # when the context goes: loading takes milliseconds, and the next one takes it
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from machine import Npu
from npu_images import Image

from npu_tensor.dataflow.design import Configuration
from npu_tensor.runtime.sim.simulated_array import LoadedConfiguration, LoadedDesign, SimulatedArray

__all__ = ["give_back", "load"]


class _Simulation:
    """The array of one NPU. idle: designs that no context holds, by digest."""

    def __init__(self, npu: Npu) -> None:
        self.array = SimulatedArray(npu.array)
        self.idle: dict[str, list[LoadedDesign]] = {}


_simulations: WeakKeyDictionary[Npu, _Simulation] = WeakKeyDictionary()
_checked: set[str] = set()
"""Digests of designs that were found within the limits of the array."""


def load(npu: Npu, image: Image) -> list[LoadedDesign]:
    """The designs of an image in order of their runs, as after a reset. Raises BuildError."""
    simulation = _simulations.get(npu)
    if simulation is None:
        simulation = _simulations[npu] = _Simulation(npu)
    idle = simulation.idle.pop(image.digest, None)
    if idle is not None:
        return idle
    loaded: dict[Configuration, LoadedConfiguration] = {}
    designs = []
    for run in image.program.runs:
        design = run.design
        if design.configuration not in loaded:
            entries = image.entries_of(design)
            loaded[design.configuration] = LoadedConfiguration(simulation.array, design, entries)
        if image.digest in _checked:
            designs.append(LoadedDesign(loaded[design.configuration], design, strict=True))
        else:
            designs.append(simulation.array.load(design, loaded=loaded[design.configuration]))
    _checked.add(image.digest)
    return designs


def give_back(npu: Npu, image: Image, loaded: list[LoadedDesign]) -> None:
    """Keep designs that are not used any more, unless their cores have memory that a reset would clear."""
    simulation = _simulations.get(npu)
    if simulation is not None and not any(run.design.core_buffers for run in image.program.runs):
        simulation.idle[image.digest] = loaded
