"""Lowering of an array program to one MLIR module, from which aiecc makes a full ELF.

    designs = parts(program)                                # designs to write and resolve as IRON programs
    text = module(program, [str(resolved(design)) for design in designs])

The module has a device for each configuration, with a runtime sequence for each of its designs in the program, and the
device @main. The sequence of @main takes the arguments of a launch and runs the others on parts of these.

Host memory consists of 32-bit words here. `memref.subview` and `memref.reinterpret_cast` cut a part out of an argument,
but keep its element type, and parts of one scratch buffer hold values of several types. `memref.view` of bytes would
solve this, but mlir-aie supports it only since its pull request 3337 of July 2026. A transfer always moves whole words,
so its words in the instruction stream stay the same.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from npu_tensor.dataflow.array_program import ArrayProgram, HostSlice
from npu_tensor.dataflow.checks.limits import WORD
from npu_tensor.dataflow.design import AccessPattern, Design, Finish, HostBuffer, KernelFunction, ObjectType
from npu_tensor.errors import BuildError

OPTIONS: Final = ("--expand-load-pdis",)
"""Options of aiecc: a change of configuration loads an empty PDI, which resets the array, and writes the registers.

Loading the PDI of the configuration takes several times as long: about 2 ms against 0.3 to 0.8 for PDIs of 120 to 440
KB on an HX 370 (utilities/reconfig-probe of Atomic-Germ/OpenFlowLM-Next, September 2026). amd/IRON and mlir-air build
this way too.
"""

_DEVICE: Final = re.compile(r"^( *)aie\.device\((\w+)\)(?: @main)? \{\n(.*?)^\1\}\n", re.MULTILINE | re.DOTALL)
_SEQUENCE: Final = re.compile(r"^( *)aie\.runtime_sequence(?: @sequence)?(\(.*?^\1\}\n)", re.MULTILINE | re.DOTALL)
"""Patterns of a device and a runtime sequence. MLIR's printer omits the optional names, which are the defaults."""


def parts(program: ArrayProgram) -> tuple[Design, ...]:
    """Return each distinct design of a program once, adapted for its IRON program.

    All use a device as wide as the program's, because a launch has one partition of the array. The object files of
    their sources have different names, but share one for the same source.
    """
    return tuple(_adapted(design, program.columns) for design in _sequences(program))


def module(program: ArrayProgram, resolved: Sequence[str]) -> str:
    """Return the text of the module from the resolved `parts`, each with one device @main and its runtime sequence.

    Raises BuildError if mlir-aie's output has an unknown form, or a part of an argument does not begin at a word.
    """
    sequences = _sequences(program)
    devices: dict[int, list[str]] = {}
    for (number, name), text in zip(sequences.values(), resolved, strict=True):
        kind, body, sequence = _taken_apart(text)
        device = devices.setdefault(number, [f"  aie.device({kind}) @configuration_{number} {{\n", body])
        device.append(f"    aie.runtime_sequence @{name}{sequence}")
    lines = [f"  aie.device({kind}) @main {{", *_main(program, sequences), "  }"]
    lines += ["".join([*device, "  }"]) for device in devices.values()]
    return "\n".join(["module {", *lines, "}\n"])


def _sequences(program: ArrayProgram) -> dict[Design, tuple[int, str]]:
    """Return the number of the configuration and the name of the runtime sequence of each distinct design."""
    sequences: dict[Design, tuple[int, str]] = {}
    counts: Counter[int] = Counter()
    for design in dict.fromkeys(run.design for run in program.runs):
        number = program.configurations.index(design.configuration)
        sequences[design] = number, f"sequence_{number}_{counts[number]}"
        counts[number] += 1
    return sequences


# --- the designs


def _adapted(design: Design, columns: int) -> Design:
    itemsizes = {buffer.name: buffer.type.itemsize for buffer in design.host_buffers}
    return replace(
        design,
        columns=columns,
        functions=tuple(map(_named_by_content, design.functions)),
        host_buffers=tuple(
            HostBuffer(buffer.name, ObjectType("int32", (_words(buffer.type.nbytes),)))
            for buffer in design.host_buffers
        ),
        sequence=tuple(
            step
            if isinstance(step, Finish)
            else step._replace(pattern=_pattern_in_words(step.pattern, itemsizes[step.buffer]))
            for step in design.sequence
        ),
    )


def _named_by_content(function: KernelFunction) -> KernelFunction:
    """Rename the source of a function by its content. Kernel families use the same name in all configurations."""
    source = function.source
    digest = hashlib.sha256(repr((source.text, source.flags)).encode()).hexdigest()
    return replace(function, source=replace(source, name=f"{source.name}_{digest[:16]}"))


def _pattern_in_words(pattern: AccessPattern, itemsize: int) -> AccessPattern:
    """Return the same walk in words. `check` has verified that offset, strides and innermost size are whole words."""
    if itemsize == WORD:
        return pattern
    (*sizes, innermost), (*strides, _) = pattern.sizes, pattern.strides
    first, second, third = (stride * itemsize // WORD for stride in strides)
    return AccessPattern(
        pattern.offset * itemsize // WORD,
        (sizes[0], sizes[1], sizes[2], innermost * itemsize // WORD),
        (first, second, third, 1),
    )


def _words(nbytes: int) -> int:
    return -(-nbytes // WORD)


# --- the module


def _taken_apart(text: str) -> tuple[str, str, str]:
    """Return device type and content of a resolved design, and its runtime sequence after the arguments."""
    devices = _DEVICE.findall(text)
    sequences = _SEQUENCE.findall(devices[0][2]) if len(devices) == 1 else ()
    if len(sequences) != 1:
        raise BuildError("this mlir-aie writes modules in another way than 1.4; install mlir-aie 1.4.5")
    _, kind, body = devices[0]
    return kind, _SEQUENCE.sub("", body), sequences[0][1]


def _main(program: ArrayProgram, sequences: Mapping[Design, tuple[int, str]]) -> Iterator[str]:
    """Yield the lines of the runtime sequence that runs the others.

    Consecutive runs of one configuration configure the array once. aiecc resets the array with two alternating empty
    PDIs, because firmware does not reload the PDI that it loaded last, and makes their number even since mlir-aie's
    pull request 3622, which 1.4.1 does not have.
    """
    arguments = ", ".join(f"%arg{n}: {_memref(_words(nbytes))}" for n, nbytes in enumerate(program.arguments))
    yield f"    aie.runtime_sequence @sequence({arguments}) {{"
    for number, runs in groupby(enumerate(program.runs), lambda item: sequences[item[1].design][0]):
        yield f"      aiex.configure @configuration_{number} {{"
        for place, run in runs:
            sizes = [_words(buffer.type.nbytes) for buffer in run.design.host_buffers]
            values = []
            for slot, (part, size) in enumerate(zip(run.slices, sizes, strict=True)):
                value, lines = _part(program, part, size, f"%run_{place}_{slot}")
                yield from lines
                values.append(value)
            types = ", ".join(map(_memref, sizes))
            yield f"        aiex.run @{sequences[run.design][1]}({', '.join(values)}) : ({types})"
        yield "      }"
    yield "    }"


def _part(program: ArrayProgram, part: HostSlice, size: int, name: str) -> tuple[str, list[str]]:
    """Return the value for some words of an argument, and the lines that make it unless it is the argument itself."""
    argument, whole = f"%arg{part.argument}", _words(program.arguments[part.argument])
    offset, rest = divmod(part.offset, WORD)
    if rest:
        raise BuildError(f"{program.name}: a part of argument {part.argument} begins with byte {part.offset}")
    if size == whole:
        return argument, []
    cut = f"memref<{size}xi32, strided<[1], offset: {offset}>>"
    return name, [
        f"        {name}_cut = memref.subview {argument}[{offset}] [{size}] [1] : {_memref(whole)} to {cut}",
        f"        {name} = memref.reinterpret_cast {name}_cut to offset: [0], sizes: [{size}], strides: [1]"
        f" : {cut} to {_memref(size)}",
    ]


def _memref(words: int) -> str:
    return f"memref<{words}xi32>"
