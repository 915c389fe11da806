"""The simulated array: arguments, parameters, state between runs, memory, threads, processes."""

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from running import in_child
from sim_designs import CORE, SHIM, TYPE, VALUES, copy_design, each, load, one_core, run

from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES, Channel, count
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, range_
from npu_tensor.errors import ArgumentError, BuildError, LaunchError
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer


def test_counters_are_those_of_what_happened() -> None:
    loaded = load(copy_design(5))
    for _ in range(2):
        counters, _ = run(loaded, VALUES[:80])
        assert counters.cycles == {CORE: 5 * (7 + CALL_CYCLES + 4 * LOCK_CYCLES)}
        assert counters.stream_bytes == {
            Channel(SHIM, "x0", "out"): 320,
            Channel(CORE, "x0", "in"): 320,
            Channel(CORE, "y0", "out"): 320,
            Channel(SHIM, "y0", "in"): 320,
        }
        assert (counters.ddr_bytes, counters.transfers) == (640, 2)
        assert counters == count(loaded.design)


def test_violations_are_all_reported() -> None:
    d = Builder("bad", "aie2", columns=1)
    x = d.host_buffer("x", "int32", 32)
    fx = d.fifo("x0", ObjectType("int32", (20000,)), SHIM, [CORE])
    d.worker(CORE, lambda source: source.acquire(1), [fx])
    d.fill(fx, x, AccessPattern.linear(64))
    violations = check(d.build())
    assert len(violations) > 1
    with pytest.raises(BuildError) as caught:
        load(d.build())
    for violation in violations:
        assert str(violation) in str(caught.value)


def test_a_design_must_be_made_for_the_array() -> None:
    design = copy_design(1)
    with pytest.raises(BuildError, match="one core is made for 1 columns of aie2p, this array has 4 of aie2"):
        SimulatedArray(ARRAYS["aie2"]).load(design)
    with pytest.raises(ArgumentError, match="npu1 has 4 columns, not 5"):
        SimulatedArray(ARRAYS["aie2"], 5)
    two = Builder("two", "aie2", columns=2)
    with pytest.raises(BuildError, match="two is made for 2 columns of aie2, this array has 1"):
        SimulatedArray(ARRAYS["aie2"], 1).load(two.build())


def test_runtime_parameters_are_written_before_every_run() -> None:
    body = each(lambda a, b, names, words: names.affine(words, a, b, 16))
    loaded = load(one_core(body, declare=lambda d: [d.parameter("words", CORE, 2)]))
    for factor, summand in [(3, 5), (-7, 0), (1, -(1 << 31))]:
        _, (_, result) = run(loaded, VALUES[:32], words=[factor, summand])
        assert result.tolist() == (factor * VALUES[:32].astype(np.int64) + summand).tolist()


def test_words_that_a_core_computes() -> None:
    """A core computes the number of its loop's rounds. The sequence states it, and the array compares."""

    pair = ObjectType("int32", (2,))

    def rounds(stated: int) -> Design:
        def declare(d: Builder) -> list[Any]:
            given, computed = d.parameter("given", CORE, 2), d.core_buffer("computed", CORE, pair)
            d.write(given, [7, 1])
            d.expect(computed, [stated, 2])
            return [given, computed]

        def body(source: Any, result: Any, names: Any, given: Any, computed: Any) -> None:
            first = source.acquire(1)
            names.add(given, given, computed, 2)
            names.copy(first, result.acquire(1), pair.nbytes)
            source.release(1)
            result.release(1)
            for _ in range_(computed[1]):
                names.copy(source.acquire(1), result.acquire(1), pair.nbytes)
                source.release(1)
                result.release(1)

        return one_core(body, 4, declare, type=pair, filled=6, drained=6)

    loaded = load(rounds(14))
    counters, (_, result) = run(loaded, VALUES[:8])
    assert result.tolist() == [0, 1, 2, 3, 4, 5, -1, -1]
    assert (counters, counters.parameter_words) == (count(loaded.design), 2)
    with pytest.raises(LaunchError, match=r"one core: the core computes \(14, 2\) in computed, not \(15, 2\)"):
        run(load(rounds(15)), VALUES[:8])


def test_numbers_are_passed_by_value() -> None:
    body = each(lambda a, b, names: names.scale(a, b, 0.375, 16))
    values = np.linspace(-1, 1, 16, dtype=np.float32)
    design = one_core(body, objects=1, type=ObjectType("float32", (16,)))
    _, (_, result) = run(load(design), values.view(np.int32))
    assert result.view(np.float32).tolist() == (values * np.float32(0.375)).tolist()


def test_core_buffers_keep_their_contents_between_runs() -> None:
    def body(source: Any, result: Any, names: Any, total: Any) -> None:
        names.add(source.acquire(1), total, total, 16)
        names.copy(total, result.acquire(1), 64)
        source.release(1)
        result.release(1)

    initial = np.full(16, 100, np.int32).tobytes()
    loaded = load(one_core(body, objects=1, declare=lambda d: [d.core_buffer("total", CORE, TYPE, initial)]))
    for runs in (1, 2, 3):
        _, (_, actual) = run(loaded, VALUES[:16])
        assert actual.tolist() == (100 + runs * VALUES[:16]).tolist()


def test_memory_that_nothing_was_written_to_is_noticed() -> None:
    body = each(lambda a, b, names, buffer: names.copy(buffer, b, 64))
    loaded = load(one_core(body, declare=lambda d: [d.core_buffer("buffer", CORE, TYPE)]))
    _, (_, result) = run(loaded, VALUES[:32])
    assert np.isnan(result.view(np.float32)).all()


def test_workers_stand_where_they_stopped() -> None:
    """The result buffer of the next object is acquired and filled ahead, before the next run brings its object."""

    def body(source: Any, result: Any, names: Any, total: Any) -> None:
        target = result.acquire(1)
        names.copy(total, target, 64)
        names.add(source.acquire(1), target, target, 16)
        names.copy(target, total, 64)
        source.release(1)
        result.release(1)

    initial = bytes(64)
    loaded = load(one_core(body, objects=1, declare=lambda d: [d.core_buffer("total", CORE, TYPE, initial)]))
    for runs in (1, 2, 3):
        counters, (_, actual) = run(loaded, VALUES[:16])
        assert actual.tolist() == (runs * VALUES[:16]).tolist()
        assert counters == count(loaded.design)


def test_a_failed_assertion_ends_the_run_and_resets_the_array() -> None:
    loaded = load(one_core(each(lambda a, b, names: names.refuse_negative(a, b, 16))))
    with pytest.raises(LaunchError, match=r"nt_refuse_negative in core \(0,2\): a negative number"):
        run(loaded, VALUES[:32] - 20)
    _, (_, result) = run(loaded, VALUES[:32])
    assert result.tolist() == VALUES[:32].tolist()


@pytest.mark.parametrize(("nbytes", "owner"), [(68, "object 0 of fifo y0 in core"), (64, None)])
def test_writing_past_an_object_is_noticed(nbytes: int, owner: str | None) -> None:
    loaded = load(one_core(each(lambda a, b, names: names.copy(a, b, nbytes))))
    if owner is None:
        run(loaded, VALUES[:32])
    else:
        with pytest.raises(LaunchError, match=f"one core: a kernel function wrote outside of {owner}"):
            run(loaded, VALUES[:32])


def test_host_and_array_see_what_was_synchronized() -> None:
    loaded = load(copy_design(1))
    x, y = DeviceBuffer(64), DeviceBuffer(64)
    assert x.bytes.ctypes.data % 64 == x.device.ctypes.data % 64 == 0
    x.bytes.view(np.int32)[:] = 5
    x.to_device()
    x.bytes.view(np.int32)[:] = 6  # and no sync
    loaded.run([x.device, y.device])
    assert y.bytes.view(np.int32).tolist() == [0] * 16
    y.from_device()
    assert y.bytes.view(np.int32).tolist() == [5] * 16


def test_designs_take_turns_on_an_array_and_threads_do_too() -> None:
    array = SimulatedArray(ARRAYS["aie2p"])
    loaded = [array.load(copy_design(3)), array.load(copy_design(5)), load(copy_design(4))]
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(20):
                design = loaded[random.integers(3)]
                values = random.integers(0, 1000, design.design.host_buffers[0].type.elements, np.int32)
                _, (_, result) = run(design, values)
                assert result.tolist() == values.tolist()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_the_thread_of_an_array_ends_with_it() -> None:
    before = set(threading.enumerate())
    loaded = load(copy_design(2))
    run(loaded, VALUES[:32])
    (thread,) = set(threading.enumerate()) - before
    del loaded
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_starts_the_design_anew() -> None:
    loaded = load(copy_design(2))
    run(loaded, VALUES[:32])
    assert in_child(lambda: run(loaded, VALUES[32:64])[1][1].tolist()) == VALUES[32:64].tolist()
    _, (_, result) = run(loaded, VALUES[64:96])
    assert result.tolist() == VALUES[64:96].tolist()


def test_importing_the_package_does_not_import_greenlet() -> None:
    program = "import sys, npu_tensor; print('greenlet' in sys.modules)"
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output == "False\n"
