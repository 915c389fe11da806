"""The stand-in for mlir-aie is as strict as each release: calls that must raise there, and pass in the others.

Every case was read in the sources of Xilinx/mlir-aie at the commits in standin/aie/_standin, files under python/ unless
another is named. Releases are written as in Python's slices: until("1.3.4") is all up to it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from generations import RELEASES, installed

TILE = np.ndarray[(64,), np.dtype[np.int32]]
FLOATS = np.ndarray[(64,), np.dtype[np.float32]]
BOOLS = np.ndarray[(64,), np.dtype[np.bool_]]
WHOLE = np.ndarray[(512,), np.dtype[np.int32]]


def since(release: str) -> tuple[str, ...]:
    return RELEASES[RELEASES.index(release) :]


def until(release: str) -> tuple[str, ...]:
    return RELEASES[: RELEASES.index(release) + 1]


ALWAYS = RELEASES


# --- a small program that the cases vary


class Api(SimpleNamespace):
    """The names of a release and a program of one core: x -> core -> y."""

    release: str

    def at(self, column: int, row: int) -> dict[str, Any]:
        """The argument that puts something on a tile."""
        return {"tile": self.Tile(column, row)}

    def copy(self, source: Any, result: Any, kernel: Any) -> None:
        """What the core does if nothing else is said."""
        for _ in self.range_(8):
            kernel(source.acquire(1), result.acquire(1))
            source.release(1)
            result.release(1)

    def kernel(self, name: str = "copy", object_file: str = "copy.o", types: Any = None) -> Any:
        return self.Kernel(name, object_file, [TILE, TILE] if types is None else types)

    def program(self, body: Any = None, *more: Any, **options: Any) -> Any:
        """The module. more: further arguments of the worker."""
        x = self.ObjectFifo(options.get("type", TILE), name="x", depth=options.get("depth", 2))
        y = self.ObjectFifo(TILE, name=options.get("y", "y"))
        kernel = options.get("kernel") or self.kernel()
        tile = self.Tile(options.get("column", 0), 2)
        worker = self.Worker(body or self.copy, [x.cons(), y.prod(), kernel, *more], tile=tile)
        return self.resolve([worker], [x], [y], options.get("tap"), options.get("before"))

    def tap(self, sizes: Any = (), strides: Any = ()) -> Any:
        return self.TensorAccessPattern((1, 512), 0, sizes or [1, 1, 1, 512], strides or [0, 0, 0, 1])

    def resolve(self, workers: Any, fills: Any, drains: Any, tap: Any = None, before: Any = None) -> Any:
        """Fill fifos from, and drain them to, buffers of their own, all in the default group."""
        types = [WHOLE] * (len(fills) + len(drains))
        if "1.4.0" in until(self.release):
            inputs = [fifo.prod(tile=self.Tile(0, 0)) for fifo in fills]
            outputs = [fifo.cons(tile=self.Tile(0, 0)) for fifo in drains]

            def sequence(*arguments: Any) -> None:
                buffers = arguments[: len(types)]
                if before:
                    before()
                for handle, buffer in zip(inputs, buffers, strict=False):
                    handle.fill(buffer, tap)
                for handle, buffer in zip(outputs, buffers[len(inputs) :], strict=True):
                    handle.drain(buffer, tap, wait=True)

            runtime = self.Runtime(sequence, [*types, *inputs, *outputs])
            return self.Program(self.NPU1Col1(), runtime, workers=workers).resolve_program()
        runtime = self.Runtime()
        with runtime.sequence(*types) as given:
            buffers = given if len(types) > 1 else (given,)
            runtime.start(*workers)
            if before:
                runtime.inline_ops(before, [])
            for fifo, buffer in zip(fills, buffers, strict=False):
                runtime.fill(fifo.prod(), buffer, tap, **self.at(0, 0))
            for fifo, buffer in zip(drains, buffers[len(fills) :], strict=True):
                runtime.drain(fifo.cons(), buffer, tap, wait=True, **self.at(0, 0))
        return self.Program(self.NPU1Col1(), runtime).resolve_program()


@pytest.fixture(scope="module", params=RELEASES)
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    with installed(request.param):
        yield names(request.param)


def names(release: str) -> Api:
    found: dict[str, Any] = {}
    for module in ("iron", "iron.device", "iron.controlflow", "helpers.taplib", "utils.compile", "ir"):
        public = vars(importlib.import_module(f"aie.{module}"))
        found |= {name: value for name, value in public.items() if not isinstance(value, ModuleType)}
    return Api(**found, release=release)


# --- the cases


class Case(NamedTuple):
    """A call, the releases in which it raises, and what. It passes in the others."""

    id: str
    call: Callable[[Api], object]
    releases: tuple[str, ...]
    error: type[Exception] | str
    match: str = "."


def two_workers(api: Api) -> object:
    handle = api.ObjectFifo(TILE).prod()
    return api.Worker(api.copy, [handle]), api.Worker(api.copy, [handle])


def one_end(api: Api) -> object:
    x, y = api.ObjectFifo(TILE, name="x"), api.ObjectFifo(TILE, name="y")
    worker = api.Worker(lambda *_: None, [x.cons(), y.prod()], **api.at(0, 2))
    return api.resolve([worker], [x], [])


def acquired(count: int) -> Callable[[Api], object]:
    return lambda api: api.program(lambda x, *_: x.acquire(count))


def split(api: Api, dims: Any = None, **place: Any) -> object:
    """Two cores share the objects of a fifo."""
    whole = api.ObjectFifo(np.ndarray[(128,), np.dtype[np.int32]], name="whole")
    parts = whole.cons().split(
        [0, 64], obj_types=[TILE] * 2, dims_from_stream=dims and [dims] * 2, **(place or api.at(0, 1))
    )
    results = [api.ObjectFifo(TILE, name=f"y{i}") for i in range(2)]
    workers = [
        api.Worker(lambda *_: None, [part.cons(), result.prod()], **api.at(0, 2 + i))
        for i, (part, result) in enumerate(zip(parts, results, strict=True))
    ]
    return api.resolve(workers, [whole], results)


def join(api: Api, dims: Any) -> object:
    """Two cores each write a half of an object, which leaves the memtile in another order."""
    whole = api.ObjectFifo(np.ndarray[(128,), np.dtype[np.int32]], name="whole", dims_to_stream=dims)
    parts = whole.prod().join([0, 64], obj_types=[TILE] * 2, **api.at(0, 1))
    sources = [api.ObjectFifo(TILE, name=f"x{i}") for i in range(2)]
    workers = [
        api.Worker(lambda *_: None, [source.cons(), part.prod()], **api.at(0, 2 + i))
        for i, (part, source) in enumerate(zip(parts, sources, strict=True))
    ]
    return api.resolve(workers, sources, [whole])


def reuse_types(types: Any) -> Callable[[Api], object]:
    def call(api: Api) -> object:
        given = types()
        return [api.program(kernel=api.kernel(types=given)) for _ in range(2)]

    return call


def same_symbol(api: Api) -> object:
    """Two declarations of one function, both called by the core."""

    def body(x: Any, y: Any, kernel: Any, other: Any) -> None:
        kernel(x.acquire(1), y.acquire(1))
        other(x.acquire(1), y.acquire(1))

    return api.program(body, api.kernel())


def nested(api: Api) -> object:
    """A kernel in a list among the worker's arguments is found from 1.4.0 on."""

    def body(x: Any, y: Any, _: Any, kernels: Any) -> None:
        kernels[0](x.acquire(1), y.acquire(1))

    return api.program(body, [api.kernel("nested")])


def initial(value: Any, type: Any) -> Callable[[Api], object]:
    return lambda api: buffer_program(api, type=type, initial_value=value)


def buffer_program(api: Api, write: Any = None, **options: Any) -> object:
    """A core with a buffer."""
    tile = api.Tile(0, 2)
    buffer = api.Buffer(**{"name": "memory", "type": TILE, **options})
    x, y = api.ObjectFifo(TILE, name="x"), api.ObjectFifo(TILE, name="y")
    worker = api.Worker(lambda *_: None, [x.cons(), y.prod(), buffer], tile=tile)
    before = None if write is None else lambda: buffer.__setitem__(0, write)
    return api.resolve([worker], [x], [y], before=before)


def other_tile(api: Api) -> object:
    """A buffer on a tile equal to its worker's, but made by another call."""
    buffer = api.Buffer(TILE, **api.at(0, 2))
    return api.program(lambda *_: None, buffer)


def groups(api: Api, finish: bool, mixed: bool) -> object:
    """A transfer in a group of its own, and one in the default group if mixed."""
    x, y = api.ObjectFifo(TILE, name="x"), api.ObjectFifo(TILE, name="y")
    worker = api.Worker(lambda *_: None, [x.cons(), y.prod()], **api.at(0, 2))
    if "1.4.0" in until(api.release):
        fill, drain = x.prod(tile=api.Tile(0, 0)), y.cons(tile=api.Tile(0, 0))

        def sequence(a: Any, b: Any, *_: Any) -> None:
            group = api.TaskGroup()
            fill.fill(a, group=None if mixed else group)
            drain.drain(b, wait=True, group=group)
            if finish:
                group.finish()

        runtime = api.Runtime(sequence, [WHOLE, WHOLE, fill, drain])
        return api.Program(api.NPU1Col1(), runtime, [worker]).resolve_program()
    runtime = api.Runtime()
    with runtime.sequence(WHOLE, WHOLE) as (a, b):
        runtime.start(worker)
        group = runtime.task_group()
        runtime.fill(x.prod(), a, task_group=None if mixed else group, **api.at(0, 0))
        runtime.drain(y.cons(), b, wait=True, task_group=group, **api.at(0, 0))
        if finish:
            runtime.finish_task_group(group)
    return api.Program(api.NPU1Col1(), runtime).resolve_program()


def foreign_buffer(api: Api) -> object:
    """The source of a transfer must be an argument of the sequence."""
    x = api.ObjectFifo(TILE)
    if "1.4.0" in until(api.release):
        handle = x.prod()
        runtime = api.Runtime(lambda _: handle.fill("somewhere"), [WHOLE])
        return api.Program(api.NPU1Col1(), runtime).resolve_program()
    runtime = api.Runtime()
    with runtime.sequence(WHOLE):
        runtime.fill(x.prod(), "somewhere")
    return runtime


def wrong_link_tile(api: Api) -> object:
    return split(api, **api.at(0, 3))


def calls(*arguments: Any) -> Callable[[Api], object]:
    """A kernel for an object and an int32, called with something else for the number."""

    def call(api: Api) -> object:
        kernel = api.kernel(types=[TILE, np.int32])
        return api.program(lambda x, y, kernel: kernel(x.acquire(1), *arguments), kernel=kernel)

    return call


CASES = (
    # iron/dataflow/objectfifo.py: keyword-only from 1.3.4; what was added when
    Case("fifo-positional", lambda api: api.ObjectFifo(TILE, 2), ALWAYS, TypeError),
    Case("fifo-nothing", lambda api: api.ObjectFifo(), ALWAYS, TypeError, "obj_type"),
    Case("fifo-unknown", lambda api: api.ObjectFifo(TILE, deepness=2), ALWAYS, TypeError, "deepness"),
    Case("fifo-pad_value", lambda api: api.ObjectFifo(TILE, pad_value=0), until("1.4.0"), TypeError),
    Case("fifo-depth", lambda api: api.ObjectFifo(TILE, depth=0), ALWAYS, ValueError, "depth must be > 0"),
    Case("fifo-not-modelled", lambda api: api.ObjectFifo(TILE, plio=True), ALWAYS, NotImplementedError, "plio"),
    Case("prod-tile", lambda api: api.ObjectFifo(TILE).prod(tile=None), until("1.3.4"), TypeError),
    Case("cons-tile", lambda api: api.ObjectFifo(TILE).cons(tile=None), until("1.3.4"), TypeError),
    Case("cons-no-depth", lambda api: api.ObjectFifo(TILE, depth=None).cons(), ALWAYS, ValueError, "depth"),
    Case("acquire-most", acquired(2), (), ValueError),
    Case("acquire-too-many", acquired(3), ALWAYS, ValueError, "acquire 3 must be smaller than depth 2"),
    Case("acquire-none", acquired(0), ALWAYS, ValueError, "at least one"),
    Case("one-end", one_end, ALWAYS, ValueError, "Cons endpoint not set"),
    Case("two-workers", two_workers, ALWAYS, ValueError, "Endpoint already set"),
    Case("split-of-prod", lambda api: api.ObjectFifo(TILE).prod().split([0]), ALWAYS, ValueError, "split"),
    Case("join-of-cons", lambda api: api.ObjectFifo(TILE).cons().join([0]), ALWAYS, ValueError, "join"),
    Case(
        "split-lists",
        lambda api: api.ObjectFifo(TILE).cons().split([0, 1], names=["a"]),
        ALWAYS,
        ValueError,
        "Number of names",
    ),
    Case("placement", lambda api: api.Worker(None, placement=api.Tile(0, 2)), ALWAYS, TypeError),
    Case("buffer-placement", lambda api: api.Buffer(TILE, placement=None), ALWAYS, TypeError),
    Case("buffer-address", lambda api: api.Buffer(TILE, address=None), until("1.3.4"), TypeError),
    Case("buffer-nothing", lambda api: api.Buffer(), ALWAYS, ValueError, "type, initial value"),
    # iron/worker.py
    Case("fifo-to-worker", lambda api: api.Worker(None, [api.ObjectFifo(TILE)]), ALWAYS, ValueError, "directly"),
    Case("worker-no-function", lambda api: api.Worker(), ALWAYS, TypeError, "core_fn"),
    Case("worker-trace", lambda api: api.Worker(None, trace=1), ALWAYS, NotImplementedError, "trace"),
    Case("worker-on-memtile", lambda api: api.Worker(None, [], api.AnyMemTile), ALWAYS, ValueError, "compute"),
    Case("nested-kernel", nested, until("1.3.4"), ValueError, "resolved"),
    # iron/kernel.py and dialects/aie.py, external_func
    Case("kernel-no-object", lambda api: api.Kernel("f"), ALWAYS, TypeError),
    Case("kernel-no-name", lambda api: api.Kernel("", "f.o"), ALWAYS, ValueError, "name"),
    Case("kernel-mode", lambda api: api.Kernel("f", "f.o", [], link_with_mode=None), until("1.3.4"), TypeError),
    Case("kernel-unresolved", lambda api: api.kernel()(1, 2), ALWAYS, ValueError, "resolved"),
    Case("kernel-types-again", reuse_types(lambda: [TILE, TILE]), ALWAYS, "MLIRError", "another module"),
    Case("kernel-types-tuple", reuse_types(lambda: (TILE, TILE)), ALWAYS, TypeError, "item assignment"),
    Case("kernel-other-dtype", lambda api: api.program(type=FLOATS), ALWAYS, "MLIRError", "operand type mismatch"),
    Case("kernel-argument-count", lambda api: api.program(kernel=api.kernel(types=[TILE])), ALWAYS, ValueError, "2"),
    Case("kernel-int", calls(7), (), ValueError),
    Case("kernel-numpy-int", calls(np.int32(7)), ALWAYS, ValueError, "must all be Value"),
    Case("kernel-float-for-int", calls(1.5), ALWAYS, TypeError),
    Case(
        "kernel-bool", lambda api: api.program(kernel=api.kernel(types=[BOOLS, BOOLS])), ALWAYS, TypeError, "NoneType"
    ),
    Case("external-nothing", lambda api: api.ExternalFunction("f"), ALWAYS, ValueError, "source"),
    Case(
        "external-inline", lambda api: api.ExternalFunction("f", source_string="", inline=0), until("1.3.4"), TypeError
    ),
    # iron/buffer.py and dialects/aie.py, buffer
    Case("initial-int", initial(np.arange(64, dtype=np.int32), TILE), (), ValueError),
    Case("initial-bfloat16", initial(np.zeros(64, ml_dtypes.bfloat16), None), ALWAYS, ValueError, "buffer"),
    Case("initial-short", initial(np.zeros(63, np.int32), TILE), ALWAYS, "MLIRError"),
    Case("write", lambda api: buffer_program(api, 7, use_write_rtp=True), (), ValueError),
    Case("write-numpy", lambda api: buffer_program(api, np.int32(7), use_write_rtp=True), ALWAYS, TypeError),
    Case("write-unresolved", lambda api: api.Buffer(TILE).__setitem__(0, 1), ALWAYS, AttributeError),
    Case("buffer-on-equal-tile", other_tile, (), ValueError),
    # iron/program.py
    Case("program-workers", lambda api: api.Program(api.NPU1(), None, workers=[]), until("1.3.4"), TypeError),
    Case("program-no-device", lambda api: api.Program(None, None), since("1.4.1"), ValueError, "device"),
    Case("device-columns", lambda api: api.program(column=1), ALWAYS, Exception, "out of range|number of columns"),
    Case("devices", lambda api: [api.NPU1(), api.NPU1Col3(), api.NPU2(), api.NPU2Col7()], (), Exception),
    Case("NPU1Col4", lambda api: api.NPU1Col4(), ALWAYS, AttributeError),
    # iron/runtime
    Case("runtime-nothing", lambda api: api.Runtime(), since("1.4.0"), TypeError, "seq_fn"),
    Case("runtime-sequence", lambda api: api.Runtime.sequence, since("1.4.0"), AttributeError),
    Case("runtime-fill", lambda api: api.Runtime.fill, since("1.4.0"), AttributeError),
    Case("handle-fill", lambda api: api.ObjectFifo(TILE).prod().fill, until("1.3.4"), AttributeError),
    Case("fill-outside", lambda api: api.ObjectFifo(TILE).prod().fill(None), ALWAYS, Exception, "'fill'|No active"),
    Case("TaskGroup", lambda api: api.TaskGroup, until("1.3.4"), AttributeError),
    Case("foreign-buffer", foreign_buffer, ALWAYS, ValueError, "RuntimeData"),
    Case("group", lambda api: groups(api, finish=True, mixed=False), (), Exception),
    Case("group-open", lambda api: groups(api, finish=False, mixed=False), ALWAYS, Exception, "Failed to close"),
    Case("group-mixed", lambda api: groups(api, finish=True, mixed=True), ALWAYS, Exception, "Mixing explicit"),
    Case("tap", lambda api: api.program(tap=api.tap()), (), Exception),
    Case("tap-tuple", lambda api: api.program(tap=api.tap((1, 1, 1, 512))), ALWAYS, AttributeError, "copy"),
    Case("tap-size", lambda api: api.tap([0, 1, 1, 1]), ALWAYS, ValueError, "sizes"),
    Case("tap-offset", lambda api: api.TensorAccessPattern((1, 4), 4, [1], [1]), ALWAYS, ValueError, "Offset"),
    Case("range-float", lambda api: api.program(lambda *_: next(api.range_(1.5))), ALWAYS, ValueError, "integer"),
    # lib/Dialect/AIE/IR/AIEDialect.cpp; func.call and symbol tables of MLIR
    Case("same-name", lambda api: api.program(y="x"), ALWAYS, "MLIRError", "symbol named 'x'"),
    Case("same-name-as-sequence", lambda api: api.program(y="sequence"), ALWAYS, "MLIRError", "sequence"),
    Case("same-symbol", same_symbol, ALWAYS, "MLIRError", "symbol named 'copy'"),
    Case("split", split, (), Exception),
    Case("split-on-core", wrong_link_tile, ALWAYS, "MLIRError"),
    Case("dims-of-lists", lambda api: join(api, [[8, 1], [8, 8]]), ALWAYS, "MLIRError", "bd_dim_layout"),
    Case("dims-of-numpy", lambda api: join(api, [(np.int64(8), 1)]), ALWAYS, "MLIRError", "bd_dim_layout"),
    Case("join-dims", lambda api: join(api, [(8, 1), (8, 8)]), (), Exception),
    Case("join-dims-reach", lambda api: join(api, [(16, 1), (8, 16)]), ALWAYS, "MLIRError", "out of bounds"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_calls(api: Api, case: Case) -> None:
    if api.release not in case.releases:
        case.call(api)
        return
    error = getattr(api, case.error) if isinstance(case.error, str) else case.error
    with pytest.raises(error, match=case.match):
        case.call(api)


def test_every_case_names_releases_that_there_are() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    assert {release for case in CASES for release in case.releases} == set(RELEASES)


def test_the_stand_in_is_gone_afterwards() -> None:
    path, modules, variables = list(sys.path), set(sys.modules), dict(os.environ)
    with installed("1.3.4"):
        import aie.iron  # type: ignore[import-not-found]

        assert not hasattr(aie.iron, "TaskGroup")
    assert {name for name in set(sys.modules) ^ modules if name.startswith("aie")} == set()
    assert (sys.path, dict(os.environ)) == (path, variables)


COMPILE_SIGNATURES = (
    ("compile_cxx_core_function", "inline", since("1.4.0")),
    ("compile_mlir_module", "full_elf_path", since("1.4.0")),
    ("compile_mlir_module", "fold_ddr_addr_offset", since("1.4.1")),
)
"""utils/compile/utils.py: the parameters that not all releases have."""


@pytest.mark.parametrize(("function", "parameter", "releases"), COMPILE_SIGNATURES)
def test_compile_signatures(api: Api, function: str, parameter: str, releases: tuple[str, ...]) -> None:
    import inspect

    found = getattr(api, function, None)
    known = found is not None and parameter in inspect.signature(found).parameters
    assert known == (api.release in releases)
