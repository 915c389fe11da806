"""The representative kernels: all families, dtypes and kinds of designs, and each is what its name says."""

from __future__ import annotations

from collections import defaultdict

import pytest

from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.dataflow.check import check
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.ggml_hsa.representative import ALL, VARIANTS, entries

pytestmark = pytest.mark.parametrize("arch", ARRAYS)


def by_variant(arch: Arch) -> dict[tuple[str, str], list[Entry]]:
    found: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries(arch):
        family, name, _ = entry.exported_name.split("-")
        found[family, name].append(entry)
    return found


def test_every_variant_is_what_it_says(arch: Arch) -> None:
    found = by_variant(arch)
    assert len(found) == len(VARIANTS)
    for variant in VARIANTS:
        for entry in found[variant.family, variant.name]:
            offer = entry.planned.offer
            assert offer.family == variant.family, entry.exported_name
            assert variant.says in offer.reason, entry.exported_name


def test_every_family_and_dtype_is_there(arch: Arch) -> None:
    """The families are those that claim; what they do not take at all is listed here."""
    refused = {"gemm": {"i32"}, "rope": {"i8", "i16", "i32", "u8"}}
    found: dict[str, set[str]] = defaultdict(set)
    for entry in entries(arch):
        family, _, dtype = entry.exported_name.split("-")
        found[family].add(dtype)
    assert found == {
        family: set(ALL) - refused.get(family, set())
        for family in ("elementwise", "rowwise", "gemm", "movement", "rope", "get_rows")
    }


def test_every_design_passes_the_checks(arch: Arch) -> None:
    for group in by_variant(arch).values():
        assert check(group[0].request()[2].design) == []


def test_all_that_a_design_can_have_occurs(arch: Arch) -> None:
    """What a lowering must know: kinds of links and fifos, buffers of cores, runtime parameters, orders of the DMAs."""
    designs = [group[0].request()[2].design for group in by_variant(arch).values()]
    fifos = [fifo for design in designs for fifo in design.fifos]
    assert {link.kind for design in designs for link in design.links} == {"split", "join", "forward"}
    assert {len(design.host_buffers) for design in designs} == {2, 3, 4, 5}
    assert {fifo.producer.kind for fifo in fifos} == {"shim", "memtile", "core"}
    assert {consumer.kind for fifo in fifos for consumer in fifo.consumers} == {"shim", "memtile", "core"}
    assert any(len(fifo.consumers) > 1 for fifo in fifos)
    assert any(fifo.dims_to_stream for fifo in fifos)
    assert {fifo.depth for fifo in fifos} >= {1, 2}
    assert any(design.parameters for design in designs)
    buffers = [buffer for design in designs for buffer in design.core_buffers]
    assert {buffer.initial is None for buffer in buffers} == {True, False}
