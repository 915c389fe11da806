"""Whole designs, and what only shows in how the parts of a design go together."""

import random
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from limit_designs import (
    ABOVE,
    CORE,
    MEMTILE,
    SHIM,
    SOURCE,
    copy,
    forwarded,
    neighbours,
    once,
    split_join,
    with_fifo,
    with_function,
    with_values,
    with_worker,
)

from npu_tensor.dataflow import AccessPattern, Builder, Design, ObjectType, Tile, range_
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.design import Acquire, Dim, Element, Finish, FunctionCall, Loop, Release, Statement, Transfer

# --- an example that mlir-aie was seen to accept


def elementwise(arch: str, columns: int) -> Design:
    """z = x + y in bfloat16, one core in each column."""
    d = Builder("add", arch, columns)
    tile, rounds = 1024, 16
    type = ObjectType("bfloat16", (tile,))
    x, y, z = (d.host_buffer(name, "bfloat16", columns * rounds * tile) for name in "xyz")
    add = d.function("add", [type] * 3, SOURCE)

    def body(a: Any, b: Any, c: Any) -> None:
        for _ in range_(rounds):
            add(a.acquire(1), b.acquire(1), c.acquire(1))
            for end in (a, b, c):
                end.release(1)

    drains = []
    for column in range(columns):
        shim, core = Tile(column, 0), Tile(column, 2)
        a, b = (d.fifo(f"{name}{column}", type, shim, [core]) for name in "ab")
        c = d.fifo(f"c{column}", type, core, [shim])
        d.worker(core, body, [a, b, c])
        part = AccessPattern.linear(rounds * tile, column * rounds * tile)
        d.fill(a, x, part)
        d.fill(b, y, part)
        drains.append((c, part))
    for c, part in drains:
        d.drain(c, z, part)
    return d.build()


@pytest.mark.parametrize(("arch", "columns"), [("aie2", 1), ("aie2", 4), ("aie2p", 4), ("aie2p", 8)])
def test_accepted(arch: str, columns: int) -> None:
    assert check(elementwise(arch, columns)) == []


# --- objects held by a body


def body_found(*body: Statement) -> list[str]:
    """Rules that a body with fifos fx (in) and fy (out) breaks, whatever its balance."""
    design = with_worker(copy(depth=3), body=body)
    return [each.rule for each in check(design) if each.rule in ("element", "release", "acquire")]


def work(x: int, y: int, position: int = 0) -> FunctionCall:
    return FunctionCall("work", (Element(x, position), Element(y, 0)))


TAKE, PUT = Acquire("fx", 1, 0), Acquire("fy", 1, 1)
TAKEN, DONE = Release("fx", 1), Release("fy", 1)


TWO, AGAIN = Acquire("fx", 2, 0), Acquire("fx", 1, 2)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ((Loop(6, (Acquire("fx", 3, 0), PUT, work(0, 1, 2), TAKEN, DONE)), Release("fx", 2)), None),
        ((TAKE, Loop(4, (PUT, work(0, 1), DONE)), TAKEN), None),
        ((TAKE, PUT, TAKEN, AGAIN, work(2, 1), TAKEN, DONE), None),
        ((TWO, PUT, Loop(2, (TAKEN,)), DONE), None),
        ((TAKE, PUT, TAKEN, work(0, 1), DONE), "element"),
        ((TWO, Loop(2, (PUT, work(0, 1), DONE, TAKEN))), "element"),
        ((TAKE, PUT, work(0, 1, 1), TAKEN, DONE), "element"),
        ((TAKE, PUT, TAKEN, AGAIN, work(0, 1), TAKEN, DONE), "element"),
        ((TAKE, PUT, Release("fx", 2), DONE), "release"),
        ((TWO, PUT, Loop(3, (TAKEN,)), DONE), "release"),
    ],
)
def test_objects_are_used_while_they_are_held(body: tuple[Statement, ...], rule: str | None) -> None:
    assert body_found(*body) == ([] if rule is None else [rule])


def test_the_name_that_mlir_aie_gives_to_a_consumer() -> None:
    design = copy()
    renamed = replace(design.fifos[1], name="fx_cons")
    result = check(replace(design, fifos=(design.fifos[0], renamed)))
    assert "2 names of the design are 'fx_cons'; they must differ." in [violation.message for violation in result]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("y-1", "is not a name in C"),
        ("1y", "is not a name in C"),
        ("sequence", "is a name that mlir-aie uses"),
        ("core_0_2", "is a name that mlir-aie uses"),
        ("fx_shim_alloc", "is a name that mlir-aie makes for fifo fx"),
        ("fx_cons_buff_1", "is a name that mlir-aie makes for fifo fx"),
        ("fx_0_cons_prod_lock_0", "is a name that mlir-aie makes for fifo fx"),
    ],
)
def test_symbols_that_are_none_or_taken(name: str, said: str) -> None:
    """The generated names are those in AIEObjectFifoStatefulTransform.cpp and AIECoreToStandard.cpp."""
    for design in (with_fifo(copy(), 1, name=name), with_function(copy(), symbol=name)):
        result = [violation for violation in check(design) if violation.rule == "symbol"]
        assert [violation.where for violation in result] == [name]
        assert f"{name!r} {said}" in result[0].message


@pytest.mark.parametrize("name", ["sequences", "core_0_2_x", "fx_buff", "fx_other_buff_0", "_y"])
def test_symbols_that_only_look_alike(name: str) -> None:
    design = with_function(copy(), symbol=name)
    assert "symbol" not in {violation.rule for violation in check(design)}


def test_element_outside_of_the_loop_that_acquired_it() -> None:
    """In MLIR a value of a loop's region is not visible after it: "operand #0 does not dominate this use"."""
    inside = Loop(2, (PUT, work(0, 1), DONE, TAKEN, Acquire("fx", 1, 2)))
    after = Acquire("fy", 1, 3)
    design = with_worker(copy(), body=(TAKE, inside, after, work(2, 3), TAKEN, DONE))
    (result,) = check(design)
    assert result.rule == "unknown name"
    assert "core (0,2) uses the acquire 2, which is unknown" in result.message
    assert check(with_worker(copy(), body=(Loop(2, (TAKE, PUT, work(0, 1), TAKEN, DONE)),))) == []


# --- links


def test_link_the_wrong_way_round() -> None:
    design = forwarded(64, 64)
    link = replace(design.links[0], inputs=("small0",), outputs=("large0",))
    result = check(replace(design, links=(link,)))
    assert [violation.rule for violation in result] == ["link ends"] * 2
    assert "fifo small0 is consumed at core (0,2), and must be at memtile (0,1)" in result[0].message


def test_split_whose_first_consumer_is_a_core() -> None:
    """mlir-aie finds the memtile of a split or join only if it is the first consumer."""
    design = split_join(2)
    parent = replace(design.fifos[0], consumers=(ABOVE, MEMTILE))
    third = replace(design.workers[1], fifos=(*design.workers[1].fifos, "parent"))
    broken = replace(design, fifos=(parent, *design.fifos[1:]), workers=(design.workers[0], third))
    assert "link ends" in {violation.rule for violation in check(broken)}


def test_what_is_split_comes_in_order() -> None:
    """mlir-aie: no dimensionsFromStreamPerConsumer for the input of a distribute."""
    design = split_join(2)
    parent = design.fifos[0]
    walk = ((Dim(2, parent.type.elements // 2), Dim(parent.type.elements // 2, 1)),)
    broken = replace(design, fifos=(replace(parent, dims_from_stream=walk), *design.fifos[1:]))
    (result,) = check(broken)
    assert result.rule == "link dims"
    assert f"fifo {parent.name} has dims_from_stream" in result.message
    to_parts = replace(design.fifos[1], dims_from_stream=((Dim(1, 1), Dim(design.fifos[1].type.elements, 1)),))
    assert check(replace(design, fifos=(parent, to_parts, *design.fifos[2:]))) == []


# --- how many objects there are


def two_inputs(first: int, second: int, taken: int = 1) -> Design:
    """A core that takes one object of a and `taken` of b in a round, filled with `first` and `second` objects."""
    d = Builder("two", "aie2", columns=1)
    type = ObjectType("int32", (16,))
    host, result = d.host_buffer("x", "int32", 16 * max(first, second)), d.host_buffer("y", "int32", 16 * first)
    a, b = (d.fifo(name, type, SHIM, [CORE], depth=4) for name in "ab")
    c = d.fifo("c", type, CORE, [SHIM])

    def body(a: Any, b: Any, c: Any) -> None:
        a.acquire(1)
        b.acquire(taken)
        c.acquire(1)
        a.release(1)
        b.release(taken)
        c.release(1)

    d.worker(CORE, body, [a, b, c])
    d.fill(a, host, AccessPattern.linear(16 * first))
    d.fill(b, host, AccessPattern.linear(16 * second))
    d.drain(c, result, AccessPattern.linear(16 * first))
    return d.build()


def test_inputs_of_a_worker_agree() -> None:
    assert check(two_inputs(4, 4)) == []
    assert check(two_inputs(4, 12, taken=3)) == []
    (result,) = check(two_inputs(4, 12, taken=2))
    assert result.rule == "balance"
    assert "core (0,2): fifo a is enough for 4 rounds of its body in a run, fifo b for 6" in result.message


@pytest.mark.parametrize(
    "design",
    [
        forwarded(1024, 256),
        forwarded(256, 1024),
        split_join(4),
        neighbours(2),
    ],
    ids=["forward to smaller", "forward to larger", "split and join", "chain of cores"],
)
def test_counts_go_through_links_and_workers(design: Design) -> None:
    """Half of the last drain's bytes are left in the array: the contradiction is found at the other end."""
    assert check(design) == []
    *front, drain, finish = design.sequence
    assert isinstance(drain, Transfer)
    half = drain._replace(pattern=AccessPattern.linear(drain.pattern.elements // 2))
    result = check(replace(design, sequence=(*front, half, finish)))
    assert {violation.rule for violation in result} <= {"balance", "whole objects"}
    assert result[0].where == drain.fifo


def test_worker_without_inputs_follows_its_drains() -> None:
    d = Builder("iota", "aie2", columns=1)
    type = ObjectType("int32", (16,))
    result = d.host_buffer("y", "int32", 64)
    first, second = (d.fifo(f"out{n}", type, CORE, [SHIM]) for n in range(2))
    d.worker(CORE, once(lambda *objects: None), [first, second])
    d.drain(first, result, AccessPattern.linear(32))
    d.drain(second, result, AccessPattern.linear(32, 32))
    assert check(d.build()) == []
    d.drain(second, result, AccessPattern.linear(16))
    assert {actual.rule for actual in check(d.build())} == {"balance", "overlap"}


# --- transfers of the host


def steps(*groups: tuple[int, int], finishes: dict[int, int]) -> Design:
    """`copy` with (group, transfers of each fifo) in order. finishes: after how many of these a group ends."""
    sequence: list[Transfer | Finish] = []
    done = 0
    for place, (group, count) in enumerate(groups):
        for fifo, buffer in (("fx", "x"), ("fy", "y")):
            parts = [AccessPattern.linear(256, 256 * (done + n)) for n in range(count)]
            sequence += [Transfer(fifo, buffer, part, group, fifo == "fy") for part in parts]
        done += count
        sequence += [Finish(other) for other, after in finishes.items() if after == place + 1]
    return replace(copy(AccessPattern.linear(256 * done), rounds=1), sequence=tuple(sequence))


def test_two_groups_in_turn() -> None:
    """While one group runs the next is started: 2 + 2 are queued, then 3 + 2."""
    turns = {0: 2, 1: 3, 2: 3}
    assert check(steps((0, 2), (1, 2), (2, 2), finishes=turns)) == []
    assert [result.rule for result in check(steps((0, 2), (1, 2), (2, 3), finishes=turns))] == ["shim queue"] * 2


def test_drains_to_the_same_place() -> None:
    design = elementwise("aie2", 2)
    *front, _, finish = design.sequence
    twice = front[-1]
    assert isinstance(twice, Transfer)
    (result,) = check(replace(design, sequence=(*front, twice._replace(fifo="c1"), finish)))
    assert result.rule == "overlap"
    assert "c0 and c1 both write element 0 of z" in result.message


def test_a_buffer_is_not_read_while_it_is_written() -> None:
    """Results that replace an operand differ from run to run on silicon: Xilinx/mlir-aie#3656."""
    design = elementwise("aie2", 2)
    sequence = tuple(
        step._replace(buffer="x") if isinstance(step, Transfer) and step.buffer == "z" else step
        for step in design.sequence
    )
    (result, *_) = check(replace(design, sequence=sequence))
    assert result.rule == "overlap"
    assert "element 0 of x at the same time" in result.message


def test_transfer_after_the_end_of_its_group() -> None:
    design = copy()
    result = check(replace(design, sequence=(design.sequence[2], *design.sequence[:2])))
    assert [violation.rule for violation in result] == ["group"]


# --- reports


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (None, None),
        (1024, None),
        (8192, None),
        (1024 + 32, "must have a multiple of 64 after the stack"),
        (960, "which end at 1024"),
        (65536 - 64 - 4096 + 64, "needs memory up to 65536"),
        # One of the four objects fits before the buffer, and the others do not fit after it.
        (20032, "needs memory up to 67328"),
    ],
)
def test_buffers_with_an_address(address: int | None, said: str | None) -> None:
    design = copy(tile=3600 if address == 20032 else 256, spare=4096)
    buffers = tuple(replace(buffer, address=address) for buffer in design.core_buffers)
    messages = [violation.message for violation in check(replace(design, core_buffers=buffers))]
    assert (said is None) == (not messages), messages
    assert said is None or any(said in message for message in messages)


def test_all_limits_are_reported_at_once() -> None:
    result = check(copy(tile=8192, host=100, program_bytes=20000))
    assert {violation.rule for violation in result} == {"core memory", "program memory", "access bounds"}


def test_violation_as_text() -> None:
    (result,) = check(copy(program_bytes=20000))
    assert str(result).startswith("program memory: core (0,2) needs about ")
    assert result.where == "core (0,2)"


@pytest.mark.parametrize("rounds", [1, 0, -1])
def test_loops_have_two_rounds_at_least(rounds: int) -> None:
    (result,) = check(with_worker(copy(), body=(Loop(rounds, (TAKE, PUT, work(0, 1), TAKEN, DONE)),)))
    assert result.rule == "loop"
    assert f"core (0,2) has a loop of {rounds} rounds" in result.message


@pytest.mark.parametrize(
    ("design", "name"),
    [
        (lambda d: replace(d, fifos=d.fifos[1:]), "fx"),
        (lambda d: replace(d, host_buffers=d.host_buffers[1:]), "x"),
        (lambda d: replace(d, functions=()), "work"),
        (lambda d: with_worker(d, fifos=("fx",)), "fy"),
        (lambda d: with_worker(d, body=(FunctionCall("work", (Element(7, 0), "nothing")),)), "nothing"),
    ],
)
def test_unknown_names(design: Callable[[Design], Design], name: str) -> None:
    result = check(design(copy()))
    assert {violation.rule for violation in result} == {"unknown name"}
    assert any(repr(name) in violation.message for violation in result)


def variants(value: Any, rng: random.Random) -> Iterator[Any]:
    """The same with something inside replaced by something else of its type, at random."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield rng.choice([-(2**40), -3, -1, 0, 1, 2, 3, 5, 17, 63, 1025, 2**31, 2**40])
    elif isinstance(value, str):
        yield rng.choice(["", "fx", "fy", "x", "work", "aie2", "bool", "float64", "nothing"])
    elif isinstance(value, Tile):
        yield rng.choice([SHIM, MEMTILE, CORE, ABOVE, Tile(-1, 2), Tile(0, 9), Tile(7, 1)])
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if getattr(value, field.name) is not None]
        name = rng.choice(names)
        for inner in variants(getattr(value, name), rng):
            yield replace(value, **{name: inner})
    elif isinstance(value, tuple):
        position = rng.randrange(len(value)) if value else 0
        make: Any = type(value)
        if hasattr(value, "_fields"):
            for inner in variants(value[position], rng):
                yield make(*value[:position], inner, *value[position + 1 :])
            return
        kind = rng.randrange(6)
        if not value or kind == 0:
            yield ()
        elif kind == 1:
            yield (*value, value[position])
        elif kind == 2:
            yield value[:position] + value[position + 1 :]
        else:
            for inner in variants(value[position], rng):
                yield (*value[:position], inner, *value[position + 1 :])


@pytest.mark.parametrize(
    "design",
    [
        copy(dims_to_stream=[(2, 128), (128, 1)], spare=64, initial=bytes(64), scalar=("int32", 3)),
        forwarded(1024, 256, dims_from_stream=[(2, 512), (512, 1)]),
        split_join(2),
        neighbours(2),
        elementwise("aie2", 2),
        with_values(words=(1, 2)),
    ],
    ids=["copy", "forward", "split and join", "neighbours", "elementwise", "parameter"],
)
def test_never_raises(design: Design) -> None:
    """Broken in one to four places at random, a design is judged: nothing is raised, and names are not empty."""
    rng = random.Random(design.name)
    accepted = 0
    for _ in range(1500):
        broken: Any = design
        for _ in range(rng.randrange(1, 5)):
            broken = next(variants(broken, rng), broken)
        result = check(broken)
        accepted += not result
        assert all(violation.rule and violation.message.endswith(".") for violation in result)
    assert accepted < 750
