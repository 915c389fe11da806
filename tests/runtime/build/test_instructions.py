"""Instruction streams are, word for word, those that mlir-aie emits, and what does not fit is said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.core_memory import CoreMemory, placed
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.build.instructions import buffer_descriptor, instructions, stream
from npu_tensor.runtime.build.iron_program import marker
from npu_tensor.runtime.build.parameter_addresses import addresses, predicted

DATA = Path(__file__).parent / "data" / "instructions"
DIGESTS: dict[Arch, dict[str, str]] = json.loads((DATA / "digests.json").read_text())
DESIGNS: dict[Arch, dict[str, Any]] = json.loads((DATA / "designs.json").read_text())
CORES: dict[Arch, dict[str, Any]] = json.loads((DATA / "cores.json").read_text())

CASES = [pytest.param(arch, name, id=f"{arch}-{name}") for arch in DIGESTS for name in DIGESTS[arch]]


def design_of(arch: Arch, name: str) -> Design:
    """Return the design of a program whose instructions were recorded from the compiler."""
    row = DESIGNS[arch][name]
    d = Builder(name, arch, row["columns"])
    word = ObjectType("int32", (1,))
    fifos = {n: d.fifo(n, word, Tile(*source), [Tile(*tile) for tile in ends]) for n, source, ends in row["fifos"]}
    buffers = {n: d.host_buffer(n, dtype, 1) for n, dtype in row["buffers"]}
    for n, tile, words in row["parameters"]:
        d.parameter(n, Tile(*tile), words)
    for step in row["sequence"]:
        if isinstance(step, int):
            d.finish(step)
        else:
            fifo, buffer, offset, sizes, strides, group, wait = step
            pattern = AccessPattern(offset, tuple(sizes), tuple(strides))
            d.transfer(fifos[fifo], buffers[buffer], pattern, group, bool(wait))
    return d.build()


def words_of(arch: Arch, name: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    design = design_of(arch, name)
    places = {parameter.name: CORES[arch][name]["address"] for parameter in design.parameters}
    return instructions(design, places)


@pytest.mark.parametrize(("arch", "name"), CASES)
def test_the_words_are_the_compilers(arch: Arch, name: str) -> None:
    words = words_of(arch, name).astype("<u4").tobytes()
    assert hashlib.sha256(words).hexdigest() == DIGESTS[arch][name]


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
def test_the_words_of_a_program_are_the_compilers(arch: Arch) -> None:
    """Two configurations, one of which comes again; two runs of one after another, and a part of a buffer."""
    exp, softmax = design_of(arch, "elementwise-exp-bf16"), design_of(arch, "rowwise-soft_max-bf16")
    first = DesignRun(exp, (HostSlice(0, 0), HostSlice(1, 0)))
    second = DesignRun(softmax, (HostSlice(1, 4096), HostSlice(2, 0)))
    program = ArrayProgram("exp_exp_softmax_exp", (first, first, second, first), (16384, 16384, 4096))
    words, places = stream(program, [{}, {}])
    assert words.tolist() == np.fromfile(DATA / "programs" / f"{arch}-{program.name}.insts", "<u4").tolist()
    assert places == ()


# --- where runtime parameters are


@pytest.mark.parametrize(
    ("arch", "name"), [pytest.param(arch, name, id=f"{arch}-{name}") for arch in CORES for name in CORES[arch]]
)
def test_parameters_are_where_the_compiler_puts_them(arch: Arch, name: str) -> None:
    core = CORES[arch][name]
    blocks = [CoreMemory(*block) for block in core["blocks"]]
    assert placed(blocks, core["stack"])[core["parameter"]] == core["address"]


def test_addresses_are_read_from_a_stream() -> None:
    path = DATA / "aie2-elementwise-number-bf16.txt"
    words = np.array([int(word, 16) for word in path.read_text().split()], np.uint32)
    design = design_of("aie2", "elementwise-number-bf16")
    assert addresses(design, words) == {parameter.name: 0x4800 for parameter in design.parameters}
    with pytest.raises(BuildError, match=f"do not begin with the words of parameter {design.parameters[0].name}"):
        addresses(design, words[4 + 6 :])


# --- a design of one core


def copy(
    pattern: AccessPattern,
    arch: Arch = "aie2",
    columns: int = 1,
    words: int = 2,
    rounds: int = 1,
    values: Sequence[int] = (),
    **sizes: int,
) -> Design:
    """Element by element through one core, `rounds` times; `pattern` is the fill's. values: of the last words."""
    d = Builder("copy", arch, columns)
    x, y = d.host_buffer("x", "int32", 2**20), d.host_buffer("y", "int32", 2**20)
    tile_type = ObjectType("int32", (sizes.get("elements", 64),))
    parameter = d.parameter("limits", Tile(0, 2), words)
    scratch = [d.core_buffer(f"scratch{n}", Tile(0, 2), tile_type) for n in range(sizes.get("scratch", 0))]
    types = [tile_type, tile_type, parameter.type, *(each.type for each in scratch)]
    copy_of = d.function("nt_copy", types, Source("copy", "void nt_copy() {}"))
    depth = sizes.get("depth", 2)
    fx = d.fifo("x0", tile_type, producer=Tile(0, 0), consumers=[Tile(0, 2)], depth=depth)
    fy = d.fifo("y0", tile_type, producer=Tile(0, 2), consumers=[Tile(0, 0)], depth=depth)

    def body(source: Any, result: Any) -> None:
        a, b = source.acquire(1), result.acquire(1)
        copy_of(a, b, parameter, *scratch)
        source.release(1)
        result.release(1)

    d.worker(Tile(0, 2), body, [fx, fy], stack_size=sizes.get("stack_size", 1024))
    d.write(parameter, values)
    for _ in range(rounds):
        group = d.group()
        d.fill(fx, x, pattern, group)
        d.drain(fy, y, AccessPattern.linear(pattern.elements, 8), group)
        d.finish(group)
    return d.build()


@pytest.mark.parametrize(("arch", "device", "burst"), [("aie2", 0x06030100, 2), ("aie2p", 0x06040100, 3)])
def test_operations(arch: Arch, device: int, burst: int) -> None:
    design = copy(AccessPattern(4, (3, 1, 2, 32), (256, 0, 128, 1)), arch)
    assert check(design) == []
    words = instructions(design, {"limits": 0x7000}).tolist()
    flags = [burst << 30, 2 << 24]
    body = [
        # write: address of the tile's memory, value, size
        *[0, 0, 0x0020_7000, 0, marker(0, 0), 24],
        *[0, 0, 0x0020_7004, 0, marker(0, 1), 24],
        # blockwrite of descriptor 0: length, offset in bytes, packet, 32 words, 2 of them 128 apart, 3 times 256
        *[1, 0, 0x1D000, 48, 64, 16, 0, 32 << 20, flags[0] | 2 << 20 | 127, flags[1], 2 << 20 | 255, 1 << 25],
        # address patch: register, argument, offset
        *[0x81, 48, 0, 0, 0, 0, 0x1D004, 0, 0, 0, 16, 0],
        # push to the queue of the first channel that reads: 3 times descriptor 0
        *[0, 0, 0x1D214, 0, 2 << 16, 24],
        *[1, 0, 0x1D020, 48, 192, 32, 0, 0, *flags, 0, 1 << 25],
        *[0x81, 48, 0, 0, 0, 0, 0x1D024, 0, 1, 0, 32, 0],
        # maskwrite: tokens of the first channel that writes go to controller 15
        *[3, 0, 0x1D200, 0, 0xF00, 0x1F00, 28],
        *[0, 0, 0x1D204, 0, 1 << 31 | 1, 24],
        # sync with a token of column 0, channel 0 that writes
        *[0x80, 16, 0, 1 << 16 | 1 << 8],
    ]
    assert words == [device, 1 << 8 | 1, 10, 4 * (4 + len(body)), *body]


def test_descriptors_are_used_again_after_a_group() -> None:
    design = copy(AccessPattern.linear(64), words=0, rounds=20)
    words = instructions(design, {"limits": 0}).tolist()
    assert words.count(0x1D000) == 20
    assert words.count(0x1D020) == 20
    assert 0x1D040 not in words


def test_firmware_translates_the_addresses_of_five_buffers() -> None:
    """To the others the place of host memory is added, as in AIETargetNPU.cpp of mlir-aie 1.4."""
    d = Builder("many", "aie2", 1)
    fifo = d.fifo("x0", ObjectType("int32", (4,)), Tile(0, 0), [Tile(0, 2)])
    for number in range(7):
        d.fill(fifo, d.host_buffer(f"x{number}", "int32", 64), AccessPattern.linear(4, 8))
    words = instructions(d.build(), {})[4:].reshape(-1, 12 + 12 + 6)
    assert words[:, 12 + 8].tolist() == list(range(7))
    assert words[:, 12 + 10].tolist() == [*[32] * 5, 0x8000_0020, 0x8000_0020]


def test_no_descriptor_is_left() -> None:
    d = Builder("many", "aie2", 1)
    x = d.host_buffer("x", "int32", 64)
    fifo = d.fifo("x0", ObjectType("int32", (4,)), Tile(0, 0), [Tile(0, 2)])
    for _ in range(17):
        d.fill(fifo, x, AccessPattern.linear(4))
    with pytest.raises(ArgumentError, match=r"shim \(0,0\): the transfer of fifo x0 finds all 16 buffer descriptors"):
        instructions(d.build(), {})


def test_a_parameter_without_an_address() -> None:
    with pytest.raises(ArgumentError, match="copy: the address of runtime parameter limits is not known"):
        instructions(copy(AccessPattern.linear(64)), {})


# --- buffer descriptors


@pytest.mark.parametrize(
    ("pattern", "itemsize", "fields"),
    [
        pytest.param(AccessPattern.linear(64), 4, (64, 0, 0, 0, 0, 0, 0, 0), id="linear"),
        pytest.param(AccessPattern.linear(2**20, 6), 2, (2**19, 12, 0, 0, 0, 0, 0, 0), id="long"),
        pytest.param(AccessPattern(0, (1, 4, 8, 16), (0, 128, 16, 1)), 4, (512, 0, 0, 0, 0, 0, 0, 0), id="neighbours"),
        pytest.param(AccessPattern(0, (1, 1, 8, 16), (0, 0, 32, 1)), 1, (32, 0, 4, 0, 8, 7, 0, 0), id="rows"),
        pytest.param(AccessPattern(0, (1, 5, 8, 2), (0, 1, 64, 3)), 4, (80, 0, 2, 2, 8, 63, 0, 0), id="columns"),
        pytest.param(AccessPattern(0, (1, 5, 8, 2), (0, 640, 64, 1)), 4, (80, 0, 2, 0, 8, 63, 639, 0), id="blocks"),
        pytest.param(AccessPattern(0, (64, 1, 1, 4), (4, 0, 0, 1)), 4, (4, 0, 0, 0, 0, 0, 0, 63 << 20 | 3), id="steps"),
        pytest.param(AccessPattern(0, (64, 1, 1, 4), (0, 0, 0, 1)), 4, (4, 0, 0, 0, 0, 0, 0, 0), id="again"),
        pytest.param(
            AccessPattern(0, (1, 2, 1023, 1023), (0, 2**20, 2**20, 1)),
            4,
            (2 * 1023 * 1023, 0, 1023, 0, 1023, 2**20 - 1, 2**20 - 1, 0),
            id="largest",
        ),
    ],
)
def test_a_descriptor(pattern: AccessPattern, itemsize: int, fields: tuple[int, ...]) -> None:
    """fields: length, offset in bytes, size and step of the innermost, of the next, step of the third, iteration."""
    length, offset, size0, step0, size1, step1, step2, iteration = fields
    words = buffer_descriptor(pattern, itemsize, 3)
    assert words == [
        length,
        offset,
        0,
        size0 << 20 | step0,
        3 << 30 | size1 << 20 | step1,
        2 << 24 | step2,
        iteration,
        1 << 25,
    ]


@pytest.mark.parametrize(
    ("pattern", "itemsize", "message"),
    [
        (AccessPattern(0, (65, 1, 1, 4), (4, 0, 0, 1)), 4, r"sizes\[0\] is 65, and can be 1 to 64"),
        (AccessPattern(0, (1, 1, 1024, 4), (0, 0, 8, 1)), 4, r"sizes\[2\] is 1024, and can be 1 to 1023"),
        (AccessPattern(0, (1, 1, 2, 2048), (0, 0, 4096, 1)), 2, r"sizes\[3\] in words is 1024, and can be 1 to 1023"),
        (AccessPattern(0, (1, 1, 2, 6), (0, 0, 8, 1)), 1, r"sizes\[3\] is 6 bytes, and must be a multiple of 4"),
        (AccessPattern(1, (1, 1, 1, 8), (0, 0, 0, 1)), 2, r"the offset is 2 bytes, and must be a multiple of 4"),
        (AccessPattern(-2, (1, 1, 1, 8), (0, 0, 0, 1)), 4, r"the offset in words is -2, and can be 0 to 1073741823"),
        (AccessPattern(0, (1, 1, 2, 8), (0, 0, 9, 1)), 2, r"strides\[2\] is 18 bytes, and must be a multiple of 4"),
        (
            AccessPattern(0, (1, 2, 2, 4), (0, 2**20 + 1, 8, 1)),
            4,
            r"strides\[1\] in words is 1048577, and can be 1 to 1048576",
        ),
        (AccessPattern(0, (2, 1, 1, 4), (-4, 0, 0, 1)), 4, r"strides\[0\] in words is -4, and can be 1 to 1048576"),
        (AccessPattern(0, (1, 1, 0, 4), (0, 0, 8, 1)), 4, r"sizes\[1:\] in words is 0, and can be 1 to 4294967295"),
    ],
)
def test_patterns_beyond_a_descriptor(pattern: AccessPattern, itemsize: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        buffer_descriptor(pattern, itemsize, 3)


# --- prediction


def test_a_parameter_comes_after_larger_buffers() -> None:
    # Four objects of 256 bytes and the counters go to banks 0 to 3 and 0, the parameter to bank 1.
    assert predicted(copy(AccessPattern.linear(64), words=1)) == {"limits": 0x4000 + 256}
    # Larger than the objects: first of all, after the stack.
    assert predicted(copy(AccessPattern.linear(64), words=65, stack_size=2048)) == {"limits": 2048}
    # Objects of 16,388 bytes fit into no bank: from the stack on, both of them, the counters and the parameter, each at
    # a multiple of 32 bytes.
    big = copy(AccessPattern.linear(64), words=1, elements=4097, depth=1)
    assert predicted(big) == {"limits": 1024 + 2 * 16416 + 32}


def test_buffers_go_around_those_with_an_address() -> None:
    """Consecutively, the largest first, even where all would fit into banks."""
    names = ("a", 512), ("b", 4096), ("c", 20000), ("d", 64)
    fixed = [CoreMemory(name, nbytes, 7168 if name == "c" else None) for name, nbytes in names]
    assert placed(fixed, 1024) == {"b": 1024, "a": 5120, "d": 5632, "c": 7168}
    longer = [*fixed, CoreMemory("e", 2048)]
    assert placed(longer, 1024) == {"b": 1024, "e": 5120, "c": 7168, "a": 27168, "d": 27680}


def test_buffers_of_a_product_are_where_the_compiler_puts_them() -> None:
    """Addresses that mlir-aie 1.4.1 (linked with LLVM 23.1) gives a core of a rescaled int8 product on aie2."""
    compiled = {
        "b0": (16384, 2048),
        "b1": (16384, 18432),
        "sums": (8192, 34816),
        "a0": (4096, 43008),
        "a1": (4096, 47104),
        "c0": (256, 51200),
        "c1": (256, 51456),
        "parameter": (12, 51712),
        "words": (8, 51744),
        "cursor": (4, 51776),
    }
    blocks = [CoreMemory(name, nbytes, 34816 if name == "sums" else None) for name, (nbytes, _) in compiled.items()]
    assert placed(blocks, 2048) == {name: address for name, (_, address) in compiled.items()}


def test_counters_come_after_a_parameter_of_their_size() -> None:
    # The words are written to 0x500 and 0x504 in the instructions of mlir-aie 1.4.1 (linked with LLVM 23.1).
    assert predicted(copy(AccessPattern.linear(64), words=2)) == {"limits": 0x500}


def test_unpredictable_addresses_are_errors() -> None:
    # 17 buffers: 2 objects of each fifo, 11 buffers, the parameter and the counters.
    with pytest.raises(BuildError, match="which of 2 buffers of 8 bytes comes first is not known"):
        predicted(copy(AccessPattern.linear(64), words=2, scratch=11))
    assert predicted(copy(AccessPattern.linear(64), words=1, scratch=11))
    assert predicted(copy(AccessPattern.linear(64), words=2, scratch=10))


def test_addresses_are_read_where_their_words_are_written() -> None:
    design = copy(AccessPattern.linear(64), words=2, values=(5,))
    words = instructions(design, {"limits": 0x7000})
    for place, value in ((8, 1), (14, 6), (4, 1)):
        changed = words.copy()
        changed[place] = value
        with pytest.raises(BuildError, match="do not begin with the words of parameter limits"):
            addresses(design, changed)
