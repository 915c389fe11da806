"""Programs of several configurations: the module that they become, and that the build makes of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from iron_standin import install, installed
from test_instructions import CASES, CORES, design_of

from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.build.iron_launch import module, parts
from npu_tensor.runtime.build.iron_program import program
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import ProgramRequest, Request


def copy(name: str, dtype: str, elements: int, columns: int = 1, arch: Arch = "aie2p", words: int = 0) -> Design:
    """Through one core, in objects of 64 elements; `name` is in the C++, which is called the same in all."""
    d = Builder(name, arch, columns)
    x, y = d.host_buffer("x", dtype, elements), d.host_buffer("y", dtype, elements)
    tile = ObjectType(dtype, (64,))
    parameters = [d.parameter("given", Tile(0, 2), words)] if words else []
    source = Source("copy", f'extern "C" void nt_{name}() {{}}')
    function = d.function(f"nt_{name}", [tile, tile, *(p.type for p in parameters)], source)
    fx = d.fifo("x0", tile, producer=Tile(0, 0), consumers=[Tile(0, 2)])
    fy = d.fifo("y0", tile, producer=Tile(0, 2), consumers=[Tile(0, 0)])

    def body(taken: Any, given: Any) -> None:
        function(taken.acquire(1), given.acquire(1), *parameters)
        taken.release(1)
        given.release(1)

    d.worker(Tile(0, 2), body, [fx, fy])
    d.fill(fx, x, AccessPattern(0, (1, 1, elements // 64, 64), (0, 0, 64, 1)))
    d.drain(fy, y, AccessPattern.linear(elements))
    return d.build()


BYTES, NUMBERS = copy("bytes", "int8", 256), copy("numbers", "int32", 1024, columns=3)
MORE_BYTES = copy("bytes", "int8", 512)


def run(design: Design, *slices: tuple[int, int]) -> DesignRun:
    return DesignRun(design, tuple(HostSlice(*part) for part in slices))


def mixed(*runs: DesignRun) -> ArrayProgram:
    return ArrayProgram("mixed", runs, (4096, 8192, 512))


PROGRAM = mixed(
    run(BYTES, (0, 0), (1, 64)),
    run(MORE_BYTES, (0, 512), (2, 0)),
    run(NUMBERS, (0, 0), (1, 4096)),
    run(BYTES, (1, 4096), (1, 0)),
)
"""Values of two types in one buffer, and two designs of one configuration."""


def resolved(made: ArrayProgram) -> list[str]:
    texts = []
    with installed():
        for design in parts(made):
            assert check(design) == []
            namespace: dict[str, Any] = {}
            exec(program(design), namespace)
            texts.append(str(namespace["module"]()))
    return texts


def launched(made: ArrayProgram) -> Any:
    """Return the steps that the stand-in reads from the verified module."""
    text = module(made, resolved(made))
    with installed():
        from aie._launches import launch

        return launch(text)


# --- in words


@pytest.mark.parametrize(("arch", "name"), CASES)
def test_transfers_in_words_are_the_same_transfers(arch: Arch, name: str) -> None:
    design = design_of(arch, name)
    (words,) = parts(ArrayProgram.of(design))
    assert {buffer.type.dtype for buffer in words.host_buffers} == {"int32"}
    places = {parameter.name: CORES[arch][name]["address"] for parameter in design.parameters}
    assert instructions(words, places).tolist() == instructions(design, places).tolist()


def test_a_configuration_stays_the_same_but_for_its_device_and_names_of_files() -> None:
    for design, adapted in zip((BYTES, MORE_BYTES, NUMBERS), parts(PROGRAM), strict=True):
        assert adapted.columns == 3
        assert {f.source.text for f in adapted.functions} == {f.source.text for f in design.functions}
        functions = tuple(replace(f, source=design.functions[0].source) for f in adapted.functions)
        assert replace(adapted.configuration, columns=design.columns, functions=functions) == design.configuration
    names = [design.functions[0].source.name for design in parts(PROGRAM)]
    assert names[0] == names[1] != names[2]


def test_no_run_writes_over_its_operand() -> None:
    """Xilinx/mlir-aie#3656: such runs gave different results each time."""
    assert mixed(run(BYTES, (0, 0), (0, 256))).runs  # side by side
    with pytest.raises(ArgumentError, match=r"run 0 \(bytes\) writes buffer y over buffer x in argument 0"):
        mixed(run(BYTES, (0, 0), (0, 252)))


# --- the module


def test_runs_take_their_parts_of_the_arguments() -> None:
    result = launched(PROGRAM)
    assert [step.device for step in result[:3]] == ["configuration_0", "configuration_1", "configuration_0"]
    runs = [made for step in result for made in step.runs]
    sequences = [made.sequence for made in runs]
    assert sequences[0] == sequences[3]
    assert len(set(sequences)) == 3
    for made, expected in zip(runs, PROGRAM.runs, strict=True):
        sizes = [buffer.type.nbytes for buffer in expected.design.host_buffers]
        assert made.parts == tuple((*part, size) for part, size in zip(expected.slices, sizes, strict=True))


@pytest.mark.parametrize(
    ("order", "devices"),
    [
        ((BYTES, NUMBERS), ["configuration_0", "configuration_1"]),
        ((BYTES, NUMBERS, NUMBERS), ["configuration_0", "configuration_1"]),
        ((BYTES, NUMBERS, BYTES), ["configuration_0", "configuration_1", "configuration_0"]),
        ((BYTES, MORE_BYTES), ["configuration_0"]),
    ],
)
def test_consecutive_runs_of_one_configuration_configure_once(order: tuple[Design, ...], devices: list[str]) -> None:
    result = launched(mixed(*(run(design, (0, 0), (1, 0)) for design in order)))
    assert [step.device for step in result] == devices
    assert sum(len(step.runs) for step in result) == len(order)


@pytest.mark.parametrize("size", [4096, 4 * 64 + 2])
def test_a_part_that_begins_inside_of_a_word(size: int) -> None:
    made = ArrayProgram("mixed", (run(BYTES, (0, 2), (1, 0)), run(NUMBERS, (1, 0), (1, 4096))), (size, 8192))
    with pytest.raises(BuildError, match="mixed: a part of argument 0 begins with byte 2"):
        module(made, resolved(made))


@pytest.mark.parametrize("old", ["aie.device(", "aie.runtime_sequence("])
def test_a_module_that_is_written_in_another_way(old: str) -> None:
    texts = [text.replace(old, "other.thing(") for text in resolved(PROGRAM)]
    with pytest.raises(BuildError, match="writes modules in another way"):
        module(PROGRAM, texts)


# --- the build


@pytest.fixture
def _toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """mlir-aie and Peano are installed, and the cache is empty."""
    install(monkeypatch, tmp_path)
    with config.scope(cache_path=str(tmp_path / "cache"), kernel_dirs=(), jit="wait"):
        yield
    assert "aie" not in sys.modules


@pytest.mark.usefixtures("_toolchain")
def test_a_program_is_found_like_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = KernelLibrary(IronBackend())
    request = ProgramRequest("bytes+numbers", PROGRAM)
    built = library.find(request)
    assert built.origin == "built"
    assert built.files[".elf"].read_text().startswith("stand-in of mlir-aie: full_elf of module ")
    text = built.files[".mlir"].read_text()
    assert text.count("aiex.run") == 4
    assert library.find(request).origin == "memory"
    # The same program, and one that differs in where a value lies.
    again = replace(PROGRAM, runs=tuple(PROGRAM.runs))
    other = replace(PROGRAM, runs=(run(BYTES, (0, 0), (1, 128)), *PROGRAM.runs[1:]))
    with config.scope(jit="off"):
        assert KernelLibrary(IronBackend()).find(ProgramRequest("again", again)).key == built.key
        with pytest.raises(BuildError, match=r"building is off .* not in the cache"):
            library.find(ProgramRequest("other", other))
    # The objects of both sources are in the cache, whichever kernel needs them.
    objects = sorted(path.name for path in tmp_path.glob("cache/aie2p-*/*.o"))
    assert len(objects) == 2
    monkeypatch.setenv("AIE_STANDIN_FAIL", "core")
    library.find(ProgramRequest("other", other))
    library.find(Request("bytes", BYTES))
    with pytest.raises(BuildError, match="asked to fail"):
        library.make(Request("bytes", BYTES), force=True)


@pytest.mark.usefixtures("_toolchain")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (ArrayProgram.of(copy("c", "int8", 256, arch="aie2")), "c needs a full ELF, and npu1 cannot be configured by"),
        (ArrayProgram.of(copy("c", "int8", 256, words=1)), "c has the kernel c, whose runtime parameters a full ELF"),
    ],
)
def test_programs_that_no_elf_can_hold(made: ArrayProgram, said: str) -> None:
    with pytest.raises(BuildError, match=said):
        KernelLibrary(IronBackend()).find(ProgramRequest("c", made))
