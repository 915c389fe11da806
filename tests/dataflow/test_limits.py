"""Measured limits of mlir-aie's compilers: designs at the limit pass, designs just beyond it fail.

Each case names the row of the measurements with the expected verdict. Locks and the reach of a core's DMA follow the
architecture manual; a few further cases, marked in their names, follow the compiler's source. No number comes from the
code under test.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest
from limit_designs import (
    CORE,
    computed,
    copy,
    cores,
    crossing,
    cut,
    fan,
    forwarded,
    idle,
    in_groups,
    neighbours,
    parameter_read,
    pattern,
    split_join,
    strided,
    two_sources,
    with_fifo,
    with_function,
    with_host_buffers,
    with_offsets,
    with_transfers,
    with_values,
    with_worker,
    without_finish,
)

from npu_tensor.dataflow import AccessPattern, Design, ObjectType, Tile
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.design import Acquire, Release

Linear = AccessPattern.linear


class Case(NamedTuple):
    """Design that breaks only `rule`, or none if it is empty."""

    name: str
    design: Callable[[], Design]
    rule: str = ""


CASES = [
    # --- core memory
    Case("stack and buffers of 65536 bytes less 64", lambda: copy(tile=4016, spare=192)),
    Case("4 bytes more, which take 64", lambda: copy(tile=4016, spare=196), "core memory"),
    Case(
        "4 buffers of 16112 bytes, which do not fit when aligned (mlir-aie 3037 and 3662)",
        lambda: copy(tile=4028),
        "core memory",
    ),
    Case("buffer of 4099 bytes", lambda: copy(spare=4099), "alignment"),
    Case(
        "buffer of 4100 bytes, which moves the objects of 1024 bytes behind it",
        lambda: copy(spare=4100, arch="aie2"),
        "alignment",
    ),
    Case("last buffer of 4 bytes", lambda: copy(spare=4)),
    Case("last buffer of 3 bytes", lambda: copy(spare=3), "alignment"),
    Case(
        "objects of no whole words in shared memory",
        lambda: with_fifo(neighbours(1), 2, type=ObjectType("int8", (15,))),
        "call, alignment",
    ),
    Case("depth 16 costs a core two buffers", lambda: copy(tile=4016, depth=16)),
    Case("depth 1 costs one", lambda: copy(Linear(4 * 8000), tile=8000, depth=1)),
    Case("shared fifo, whose depth counts", lambda: neighbours(1, tile=1024, depth=11)),
    Case(
        "shared fifo, one deeper, in the producer's memory", lambda: neighbours(1, tile=1024, depth=12), "core memory"
    ),
    Case(
        "shared fifo to the west, in the consumer's memory",
        lambda: neighbours(1, tile=1024, depth=14, first=Tile(1, 2), second=CORE),
        "core memory",
    ),
    # --- stack
    Case("stack of no whole words", lambda: copy(stack=1026), "alignment"),
    Case("stack before 64 bytes on aie2p", lambda: copy(stack=1056, tile=16), "alignment"),
    Case("stack before objects of 64 bytes on aie2", lambda: copy(stack=1056, tile=16, arch="aie2")),
    Case("no stack", lambda: copy(stack=0), "size"),
    Case("LINT 1: stack of 65536 bytes", lambda: copy(stack=65536), "stack, core memory"),
    # --- program
    Case("function of 15 KB", lambda: copy(program_bytes=15000)),
    Case("function of 16 KB", lambda: copy(program_bytes=16384), "program memory"),
    # --- memtile memory
    Case("524288 bytes", lambda: forwarded(65536, 256, depth=2)),
    Case("8 bytes more", lambda: forwarded(65537, 1, depth=2), "memtile memory"),
    Case("descriptor of 131071 words", lambda: forwarded(131071, 1, depth=1)),
    Case("descriptor of 131072 words", lambda: forwarded(131072, 256, depth=1), "descriptor length"),
    # --- lengths
    Case("core: descriptor of 16384 words", lambda: copy(tile=16384, depth=1), "descriptor length, core memory"),
    # --- channels
    Case("core: 2 in, 2 out", lambda: fan(2, 2)),
    Case("core: 3 in", lambda: fan(3, 1), "DMA channels"),
    Case("core: 3 out", lambda: fan(1, 3), "DMA channels"),
    Case("no neighbours: 2 fifos between", lambda: neighbours(2, second=Tile(1, 3))),
    Case("no neighbours: 3 fifos between", lambda: neighbours(3, second=Tile(1, 3)), "DMA channels"),
    Case(
        "neighbours with dims need them",
        lambda: with_fifo(
            with_fifo(with_fifo(neighbours(3), 2, dims_to_stream=((16, 1),)), 3, dims_to_stream=((16, 1),)),
            4,
            dims_from_stream=(((16, 1),),),
        ),
        "DMA channels",
    ),
    Case("shim: 2 fills and 2 drains in a column", lambda: cores([Tile(0, 2), Tile(0, 3)], 1)),
    Case("shim: 3 of both", lambda: cores([Tile(0, 2), Tile(0, 3), Tile(0, 4)], 1), "DMA channels"),
    Case("switches (AIETargetModel.cpp): 6 streams up", lambda: crossing(6, 2)),
    Case("switches: 4 streams down", lambda: crossing(4, 4)),
    Case("switches: 7 streams up", lambda: crossing(7, 2), "streams"),
    Case("switches: 5 streams down", lambda: crossing(4, 5), "streams"),
    Case("switches of 2 columns: 7 streams up", lambda: crossing(7, 2, columns=2)),
    Case("memtile: split into 6", lambda: split_join(6, join=False)),
    Case("memtile: split into 7", lambda: split_join(7, depth=1, join=False), "DMA channels"),
    Case("memtile: 7 forwards", lambda: forwarded(64, 64, count=7), "DMA channels"),
    # --- cores
    Case("a fifth row", lambda: cores([Tile(0, 6)], 1), "tile"),
    Case("8 columns of npu2", lambda: cores([Tile(7, 5)], 8)),
    Case("a ninth column", lambda: cores([Tile(8, 2)], 8), "tile"),
    Case("9 columns of npu2", lambda: cores([CORE], 9), "columns"),
    Case("4 columns of npu1", lambda: replace(cores([Tile(3, 2)], 4), arch="aie2")),
    Case("5 columns of npu1", lambda: replace(cores([Tile(3, 2)], 5), arch="aie2"), "columns"),
    Case("another generation", lambda: replace(copy(), arch="aie4"), "arch"),
    Case("two workers on a core", lambda: replace(copy(), workers=copy().workers * 2), "one worker per core"),
    # --- descriptors
    Case("core: window of 14", lambda: copy(Linear(14 * 32), tile=16, depth=14, hold=14), "buffer descriptors"),
    Case("memtile: split and join of 2, depth 4", lambda: split_join(2, 4)),
    Case("memtile: split and join of 2, depth 5", lambda: split_join(2, 5), "buffer descriptors"),
    Case("memtile: forward of depth 12, both ends even", lambda: forwarded(64, 64, depth=12)),
    Case("memtile: forward of depth 13", lambda: forwarded(64, 64, depth=13), "buffer descriptors"),
    Case("sequence: 12 live in a shim tile of npu2", lambda: fan(2, 2, fills=[4, 4], drains=[2, 2], columns=1)),
    Case("sequence: 13 live", lambda: fan(2, 2, fills=[4, 4], drains=[4, 1], columns=1), "sequence descriptors"),
    Case(
        "sequence: 8 live in a shim tile of npu1",
        lambda: replace(fan(2, 2, fills=[2, 2], drains=[2, 2], columns=1), arch="aie2"),
    ),
    Case(
        "sequence: 9 live on npu1",
        lambda: replace(fan(2, 2, fills=[3, 2], drains=[2, 2], columns=1), arch="aie2"),
        "sequence descriptors",
    ),
    Case("sequence: freed by the end of their group", lambda: in_groups(cut(24), 4)),
    # --- objects
    Case("16 bfloat16", lambda: copy(Linear(64), "bfloat16", 16)),
    Case("15 bfloat16", lambda: copy(Linear(60), "bfloat16", 15), "object size"),
    *(
        Case(f"fifo of {dtype}", partial(copy, dtype=dtype))
        for dtype in ("float32", "bfloat16", "float16", "float64", "int8", "uint8", "int16", "int32", "int64")
    ),
    Case("fifo of bool", lambda: copy(dtype="bool"), "dtype"),
    Case("fifo of no size", lambda: with_fifo(copy(), 0, type=ObjectType("int32", (4, 0))), "size"),
    # --- patterns
    Case("linear: 2^32 - 1 words", lambda: copy(Linear(2**32 - 1), tile=257)),
    Case("linear: 2^32 words", lambda: copy(Linear(2**32)), "access length"),
    Case("linear, repeated", lambda: copy(pattern((4, 1, 1, 4096), (4096, 0, 0, 1)))),
    Case("innermost: 1023 words", lambda: copy(pattern((1, 1, 2, 1023), (0, 0, 1024, 1)), tile=1023)),
    Case(
        "innermost: 1024 words, though contiguous",
        lambda: copy(pattern((1, 1, 2, 1024), (0, 0, 1024, 1)), tile=1024),
        "access size",
    ),
    Case("innermost: 2046 bfloat16", lambda: copy(pattern((1, 1, 2, 2046), (0, 0, 2046, 1)), "bfloat16", 2046)),
    Case(
        "innermost: 2048 bfloat16",
        lambda: copy(pattern((1, 1, 2, 2048), (0, 0, 2048, 1)), "bfloat16", 2048),
        "access size",
    ),
    Case("sizes[2] of 1023", lambda: copy(pattern((1, 1, 1023, 16), (0, 0, 32, 1)), tile=16)),
    Case("sizes[2] of 1024", lambda: copy(pattern((1, 1, 1024, 16), (0, 0, 32, 1)), tile=16), "access size"),
    Case("sizes[1] of 2000", lambda: copy(pattern((1, 2000, 1, 16), (0, 32, 0, 1)), tile=16)),
    Case("sizes[0] of 64", lambda: copy(pattern((64, 1, 2, 16), (64, 0, 32, 1)), tile=16)),
    Case("sizes[0] of 65", lambda: copy(pattern((65, 1, 2, 16), (64, 0, 32, 1)), tile=16), "access size"),
    *(Case(f"strides[{position}] of 2^20 words", partial(strided, position, 2**20)) for position in (0, 1, 2)),
    *(
        Case(f"strides[{position}] of 2^20 + 1 words", partial(strided, position, 2**20 + 1), "access stride")
        for position in (0, 1, 2)
    ),
    Case("repeat by stride 0 outside", lambda: copy(pattern((4, 1, 2, 16), (0, 0, 32, 1)), tile=16)),
    *(
        Case(f"repeat by stride 0 in strides[{position}]", partial(strided, position, 0), "access stride")
        for position in (1, 2)
    ),
    Case("offset of 4 bytes", lambda: copy(Linear(64, 2), "bfloat16", 16)),
    Case("offset of 6 bytes", lambda: copy(Linear(64, 3), "bfloat16", 16), "access alignment"),
    Case("row pitch of 34 bfloat16", lambda: copy(pattern((1, 1, 4, 16), (0, 0, 34, 1)), "bfloat16", 16)),
    Case(
        "row pitch of 33 bfloat16",
        lambda: copy(pattern((1, 1, 4, 16), (0, 0, 33, 1)), "bfloat16", 16),
        "access alignment",
    ),
    Case("every second bfloat16", lambda: copy(pattern((1, 1, 2, 16), (0, 0, 32, 2)), "bfloat16", 16), "access stride"),
    Case(
        "every second int32 in one dimension (mlir-aie issue 2930)",
        lambda: copy(pattern((1, 1, 1, 64), (0, 0, 0, 2)), tile=16),
        "access stride",
    ),
    Case("size 0", lambda: with_transfers(copy(), pattern=pattern((1, 1, 0, 4), (0, 0, 4, 1))), "access size"),
    Case(
        "stride -1",
        lambda: copy(pattern((1, 2, 2, 16), (0, -32, 16, 1), offset=32), tile=16, host=128),
        "access stride",
    ),
    # --- dims
    Case("memtile: 4 dimensions", lambda: forwarded(256, 256, dims_to_stream=[(4, 64), (4, 4), (4, 16), (4, 1)])),
    Case(
        "memtile: 5 dimensions",
        lambda: forwarded(256, 256, dims_to_stream=[(2, 128), (2, 64), (4, 4), (4, 16), (4, 1)]),
        "dims count",
    ),
    Case("core: 3 dimensions", lambda: copy(dims_to_stream=[(4, 64), (8, 8), (8, 1)])),
    Case("core: 4 dimensions", lambda: copy(dims_from_stream=[(2, 128), (2, 64), (8, 8), (8, 1)]), "dims count"),
    Case("memtile: size 512", lambda: forwarded(1024, 1024, dims_to_stream=[(2, 512), (512, 1)])),
    Case("memtile: size 513", lambda: forwarded(1026, 1026, dims_to_stream=[(2, 513), (513, 1)]), "dims size"),
    Case("memtile: 1022 words", lambda: forwarded(1022, 1022, dtype="float64", dims_to_stream=[(2, 511), (511, 1)])),
    Case(
        "memtile: 1024 words",
        lambda: forwarded(1024, 1024, dtype="float64", dims_to_stream=[(2, 512), (512, 1)]),
        "dims size",
    ),
    Case("core: 255 words", lambda: copy(tile=510, dims_to_stream=[(2, 255), (255, 1)])),
    Case("LINT 4: core wrap of 256", lambda: copy(tile=512, dims_to_stream=[(2, 256), (256, 1)]), "dims size"),
    Case("reach up to the last element", lambda: copy(dims_from_stream=[(16, 1), (16, 16)])),
    Case("reach beyond it", lambda: copy(dims_from_stream=[(16, 1), (16, 17)]), "dims reach"),
    Case("stride 0", lambda: copy(dims_to_stream=[(2, 0), (128, 1)]), "dims stride"),
    Case("size 0", lambda: copy(dims_to_stream=[(0, 1), (256, 1)]), "dims size"),
    Case("sub-word innermost stride 1", lambda: copy(dtype="bfloat16", dims_to_stream=[(16, 2), (8, 32), (2, 1)])),
    Case(
        "sub-word innermost stride 16",
        lambda: copy(dtype="bfloat16", dims_to_stream=[(16, 2), (16, 16)]),
        "dims stride, dims reach",
    ),
    Case(
        "innermost stride 2 of float64",
        lambda: copy(None, "float64", 64, dims_to_stream=[(2, 1), (32, 2)]),
        "dims stride",
    ),
    Case(
        "core: stride of 8193 words, in objects that only fit once",
        lambda: copy(tile=16000, depth=1, dims_to_stream=[(2, 8193), (40, 190), (200, 1)]),
        "dims stride, core memory",
    ),
    Case(
        "LINT 2: bfloat16 stride 63",
        lambda: copy(None, "bfloat16", 128, dims_to_stream=[(2, 63), (64, 1)]),
        "dims alignment",
    ),
    Case(
        "LINT 2: bfloat16 size 63",
        lambda: copy(None, "bfloat16", 126, dims_to_stream=[(2, 62), (63, 1)]),
        "dims alignment",
    ),
    Case(
        "LINT 3: product is not the object's length",
        lambda: copy(tile=1024, dims_to_stream=[(32, 32), (31, 1)]),
        "dims product",
    ),
    Case(
        "forward to smaller objects walks the larger", lambda: forwarded(1024, 256, dims_to_stream=[(4, 1), (256, 4)])
    ),
    Case(
        "forward to smaller objects walks only one of them",
        lambda: forwarded(1024, 256, dims_to_stream=[(4, 1), (64, 4)]),
        "dims product",
    ),
    Case("dims at a shim tile", lambda: with_fifo(copy(), 0, dims_to_stream=((256, 1),)), "dims count"),
    # --- workers
    Case("acquire as many as the depth", lambda: copy(Linear(3 * 256), depth=3, hold=3)),
    Case(
        "acquire 4 of depth 3", lambda: with_fifo(copy(Linear(4 * 64), tile=64, depth=4, hold=4), 0, depth=3), "acquire"
    ),
    Case(
        "(256,) is not (16, 16)",
        lambda: with_function(copy(), arguments=(ObjectType("int32", (256,)), ObjectType("int32", (16, 16)))),
        "call",
    ),
    Case(
        "2 arguments, 3 given",
        lambda: with_function(copy(scalar=("int32", 1)), arguments=(ObjectType("int32", (256,)),) * 2),
        "call",
    ),
    *(
        Case(f"{dtype} as number", partial(copy, scalar=(dtype, value)))
        for dtype, value in (("int32", 1), ("int64", 1), ("float32", 1.0), ("bfloat16", 1.0))
    ),
    Case("int16 as number", lambda: copy(scalar=("int16", 1)), "dtype"),
    Case("2^31 as int32", lambda: copy(scalar=("int32", 2**31)), "call"),
    Case(
        "two signatures of a symbol",
        lambda: replace(copy(), functions=(copy().functions[0], copy(tile=128).functions[0])),
        "unique names",
    ),
    Case("two objects on a core", two_sources),
    Case("runtime parameter after an acquire", lambda: parameter_read(early=False)),
    Case("all words of a runtime parameter", lambda: with_values(words=(1, 2, 3, 4))),
    Case("more words than a runtime parameter has", lambda: with_values(words=(1, 2, 3, 4, 5)), "runtime parameter"),
    Case("words of an unknown runtime parameter", lambda: with_values(words=(1,), other=(2,)), "unknown name"),
    Case("rounds that a core computes", lambda: computed((5, 6))),
    Case("rounds that are not stated", lambda: computed(None), "unknown name"),
    Case("a part of what a core computes", lambda: computed((6,)), "core buffer"),
    Case("rounds that are less than none", lambda: computed((5, -1)), "runtime parameter"),
    Case("rounds that are no int32", lambda: computed((5, 6), "float32"), "unknown name"),
    Case("runtime parameter before it", lambda: parameter_read(early=True), "runtime parameter"),
    Case(
        "LINT 9: acquire without release",
        lambda: with_worker(
            copy(), body=(Acquire("fx", 1, 0), Acquire("fy", 2, 1), Release("fx", 1), Release("fy", 1))
        ),
        "release",
    ),
    # --- fifos
    Case(
        "fifo without consumer",
        lambda: with_fifo(copy(), 1, consumers=(), dims_from_stream=()),
        "unused end, fifo ends",
    ),
    Case("fifo that nothing is sent to", lambda: replace(copy(), sequence=copy().sequence[1:]), "balance"),
    Case(
        "fifo that its worker does not get",
        lambda: replace(neighbours(1), workers=neighbours(1).workers[:1]),
        "unused end",
    ),
    Case("memtile end without link", lambda: replace(forwarded(64, 64), links=()), "unused end"),
    Case("two fifos of one name", lambda: replace(copy(), fifos=copy().fifos + copy().fifos[:1]), "unique names"),
    Case("16 host buffers", lambda: with_host_buffers(16)),
    Case("17 host buffers", lambda: with_host_buffers(17), "host buffers"),
    Case("LINT 10: an end handed over twice", lambda: with_worker(copy(), fifos=("fx", "fx", "fy")), "fifo ends"),
    Case("lock value of 63", lambda: neighbours(1, depth=63)),
    Case("lock value of 64", lambda: neighbours(1, depth=64), "lock value"),
    Case("core locks: 16", lambda: neighbours(6)),
    Case("core locks: 18", lambda: neighbours(7), "locks"),
    # --- links
    Case("split without gaps", lambda: split_join(4)),
    Case("LINT 6: gap", lambda: with_offsets(split_join(2, whole=132), 0, 68), "link offsets"),
    Case("LINT 6: overlap", lambda: with_offsets(split_join(2), 0, 60), "link offsets"),
    Case("one offset too few", lambda: with_offsets(split_join(3), 0, 64), "link offsets"),
    Case("forward that divides", lambda: forwarded(1024, 256)),
    Case("LINT 6: forward that does not", lambda: forwarded(1024, 384), "link sizes"),
    Case(
        "link in a core",
        lambda: replace(forwarded(64, 64), links=(replace(forwarded(64, 64).links[0], tile=CORE),)),
        "tile",
    ),
    Case(
        "link of two inputs and two outputs",
        lambda: replace(
            forwarded(64, 64, count=2),
            links=(replace(forwarded(64, 64).links[0], inputs=("large0", "large1"), outputs=("small0", "small1")),),
        ),
        "link sides",
    ),
    # --- sequence
    Case("LINT 5: up to the end", lambda: copy(Linear(1024, 16), host=1040)),
    Case("LINT 5: past the end", lambda: copy(Linear(1024, 16), host=1036), "access bounds"),
    Case("LINT 5: before the beginning", lambda: copy(Linear(1024, -16), host=1040), "access bounds"),
    Case("LINT 7: no wait", lambda: with_transfers(copy(), wait=False), "wait"),
    Case("LINT 8: 4 transfers on a channel", lambda: cut(4)),
    Case("LINT 8: 5 transfers on a channel", lambda: cut(5), "shim queue"),
    Case(
        "LINT 9: fill of more than the core takes",
        lambda: copy(Linear(2048), drained=Linear(1024), rounds=4),
        "balance",
    ),
    Case("group without end", lambda: without_finish(copy()), "group"),
    Case("core that is idle", lambda: idle("in1", "out1")),
    Case("core that only gets objects", lambda: idle("out1"), "balance"),
    Case("core that only sends objects", lambda: idle("in1"), "balance"),
    Case(
        "no drain at all", lambda: replace(copy(), sequence=(copy().sequence[0], copy().sequence[-1])), "balance, wait"
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_limit(case: Case) -> None:
    result = check(case.design())
    rules = set(filter(None, case.rule.split(", ")))
    assert {violation.rule for violation in result} == rules, [str(violation) for violation in result]
