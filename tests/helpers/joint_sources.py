"""Joint compilation of kernels from many sources: headers and templates, the slowest part, are read once."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.design import Design, KernelFunction, Source
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.host_compiler import CompiledSource, Entry

INCLUDE = re.compile(r"^#include .*\n", re.MULTILINE)


class _Part(CompiledSource):
    """The functions of one of the sources, in the library of all of them."""

    def __init__(self, whole: CompiledSource, number: int) -> None:
        self._whole, self._number = whole, number

    def entry(self, function: KernelFunction) -> Entry:
        return self._whole.entry(_numbered(function, self._number))


def _numbered(function: KernelFunction, number: int) -> KernelFunction:
    return replace(function, symbol=f"{function.symbol}_{number}")


def compile_together(designs: Iterable[Design], patch: pytest.MonkeyPatch) -> None:
    """Compile the kernels of these designs together for the simulator, until the patch is undone.

    The functions of every source get a number after their names, and each source gets a namespace. The simulator
    compiles sources that define macros itself.
    """
    sources: dict[Arch, dict[Source, list[KernelFunction]]] = {}
    for design in designs:
        for source, functions in host_compiler.functions_by_source(design).items():
            if "#define" not in source.text and not source.flags:
                sources.setdefault(design.arch, {})[source] = functions
    # A cached part is not a complete library, so joint compilations of other sources must not find it.
    texts = [f"{arch} {source.text}" for arch, parts in sources.items() for source in parts]
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()
    patch.setattr(host_compiler, "_VISIBLE_FLAGS", (*host_compiler._VISIBLE_FLAGS, digest))
    with ThreadPoolExecutor() as pool:
        libraries = dict(zip(sources, pool.map(_compiled, sources, sources.values()), strict=True))
    for arch, parts in sources.items():
        for number, (source, functions) in enumerate(parts.items()):
            with pytest.MonkeyPatch.context() as builds:
                builds.setattr(host_compiler, "_build", _placeholder)
                kept = host_compiler.library(source, arch, functions)
            file = kept.description["files"][host_compiler.SUFFIX]
            patch.setitem(host_compiler._loaded, file["sha256"], _Part(libraries[arch], number))


def compiled_together(designs: Callable[[], Iterable[Design]], autouse: bool = True) -> Any:
    """Return a fixture that compiles the kernels of designs together for the tests of a module."""

    @pytest.fixture(scope="module", autouse=autouse)
    def compiled(less_optimised: None) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            compile_together(designs(), patch)
            yield

    return compiled


def _placeholder(compiler: object, arch: Arch, source: Source, *rest: Any) -> dict[str, Path]:
    """A file that differs from those of other parts."""
    path = Path(rest[-1]) / "part"
    path.write_text(f"{arch}\n{source.text}")
    return {host_compiler.SUFFIX: path}


def _compiled(arch: Arch, sources: dict[Source, list[KernelFunction]]) -> CompiledSource:
    includes: dict[str, None] = {}
    texts, functions = [], []
    for number, (source, own) in enumerate(sources.items()):
        includes |= dict.fromkeys(INCLUDE.findall(source.text))
        text = INCLUDE.sub("", source.text)
        for function in own:
            functions.append(_numbered(function, number))
            text = re.sub(rf"\b{function.symbol}\b", functions[-1].symbol, text)
        texts.append(f"namespace part_{number} {{\n{text}\n}}\nusing namespace part_{number};\n")
    together = Source("together", "".join((*includes, *texts)))
    return host_compiler.compile_source(together, arch, [replace(each, source=together) for each in functions])
