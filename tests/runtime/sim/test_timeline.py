"""Simulated timelines of small designs against cycles worked out by hand, and against the cost model."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from timed_designs import CORE, MEMTILE, OTHER, SHIM, all_columns, loaded, one_core, run, split, timeline

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.dataflow.array import ARRAYS, Tile
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.planner import selection
from npu_tensor.runtime.rates import npu_rates
from npu_tensor.runtime.sim import timeline as timelines
from npu_tensor.runtime.sim.host_compiler import reason
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.runtime.sim.timeline import Span, Timeline, recorded

# By the rules of `clocks`: 10 cycles per acquire and release, 27 per call, 4 bytes per cycle and channel.
ARRAY = ARRAYS["aie2p"]
START = ARRAY.queue_start_cycles + ARRAY.read_start_cycles
WAIT = ARRAY.wait_cycles
CONTROLLER = 20e-6
"""Upper bound on the seconds of runtime parameters, the first start and the wait of a kernel of the families."""


def test_one_object_goes_through_step_by_step() -> None:
    result = timeline(one_core(1, 16))
    assert result.cycles == START + 99 + WAIT
    assert result.spans == (
        Span(SHIM, "x0 out", "out", "x0", START, START + 16),
        Span(SHIM, "y0 in", "in", "y0", START + 83, START + 99),
        Span(CORE, "core", "wait", "x0", 0, START + 16),
        Span(CORE, "core", "compute", "nt_work", START + 36, START + 63),  # after two acquires
        Span(CORE, "x0 in", "in", "x0", START, START + 16),
        Span(CORE, "y0 out", "out", "y0", START + 83, START + 99),  # after two releases
    )
    assert result.seconds == result.cycles / 1.8e9


def test_a_core_that_computes_longer_than_the_data_takes_works_without_a_pause() -> None:
    result = timeline(one_core(5, 16))
    assert result.cycles == START + 16 + 5 * 67 + 16 + WAIT
    calls = [span for span in result.spans if span.kind == "compute"]
    assert [span.start for span in calls] == [START + 36 + 67 * number for number in range(5)]
    assert [span.what for span in result.spans if span.kind == "wait"] == ["x0"]


def test_a_channel_that_takes_longer_than_the_core_moves_without_a_pause() -> None:
    result = timeline(one_core(4, 256))
    assert result.cycles == START + 4 * 256 + 67 + 256 + WAIT
    # One piece for the host; objects for the core.
    assert [(span.start, span.end) for span in result.lanes()[SHIM, "x0 out"]] == [(START, START + 1024)]
    assert [span.start for span in result.lanes()[CORE, "x0 in"]] == [START + n for n in (0, 256, 512, 768)]
    assert sum(span.cycles for span in result.spans if span.kind == "wait") == START + 256 + 3 * (256 - 67)


def test_the_host_starts_what_follows_a_wait_when_that_has_ended() -> None:
    result = timeline(one_core(2, 16, in_turn=True))
    again = START + 99 + WAIT + ARRAY.queue_cycles + ARRAY.read_cycles
    spans = [(span.start, span.end) for span in result.lanes()[SHIM, "x0 out"]]
    assert spans == [(START, START + 16), (again, again + 16)]
    assert result.cycles == again + 99 + WAIT


def test_halves_go_different_ways() -> None:
    result = timeline(split())
    lanes = {
        (tile, lane): [(span.start - START, span.end - START) for span in spans]
        for (tile, lane), spans in result.lanes().items()
    }
    # Each half has locks of its own in the memtile.
    assert lanes[MEMTILE, "a0 out"] == lanes[CORE, "a0 in"] == [(64, 128)]
    assert lanes[MEMTILE, "a1 out"] == lanes[OTHER, "a1 in"] == [(128, 192)]
    assert lanes[CORE, "b0 out"] == [(128 + 67, 259)]
    assert lanes[OTHER, "b1 out"] == [(192 + 67, 323)]
    assert lanes[MEMTILE, "y0 out"] == [(259, 323), (323, 387)]
    assert result.cycles == START + 387 + WAIT


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
@pytest.mark.parametrize("runs_of", [256, 8])
def test_transfers_share_the_host_memory(arch: str, runs_of: int) -> None:
    result = timeline(all_columns(arch, 24, runs_of=runs_of))
    predicted = predict(count(all_columns(arch, 24, runs_of=runs_of)), ARRAYS[arch])
    assert predicted.limit == "ddr"
    assert predicted.ddr > 1.5 * predicted.stream
    # One object in and one out, with all others at the same time, come on top of the bandwidth.
    assert predicted.seconds <= result.seconds <= 1.4 * predicted.seconds


@pytest.mark.parametrize(
    "design",
    [one_core(1, 16), one_core(9, 16), one_core(9, 256), one_core(9, 64, depth=1), split(), all_columns("aie2", 2)],
)
def test_a_run_takes_no_less_than_each_resource_alone(design: Design) -> None:
    result, predicted = timeline(design), predict(count(design), design.array)
    assert result.seconds >= predicted.seconds * (1 - 1e-9)
    assert result.seconds <= 3 * (predicted.compute + predicted.stream + predicted.ddr) + predicted.overhead


def test_lanes_do_one_thing_at_a_time() -> None:
    for design in (one_core(9, 64), split(), all_columns("aie2p", 3, runs_of=8)):
        for spans in timeline(design).lanes().values():
            assert all(0 <= span.start < span.end for span in spans)
            assert all(one.end <= other.start for one, other in pairwise(spans))


def test_recording_is_of_first_runs_and_ends_with_the_block() -> None:
    first, second = loaded(one_core(1, 16)), loaded(one_core(2, 16))
    run(first)
    assert first.timeline is None
    with recorded() as outer:
        run(first)
        with recorded() as inner:
            run(first)
            run(second)
        run(second)
        assert second.timeline is outer[1]  # It takes the same course.
    run(second)
    assert second.timeline is None
    assert [each.cycles for each in inner] == [START + 99 + WAIT, START + 16 + 2 * 67 + 16 + WAIT]
    assert [each.cycles for each in outer] == [each.cycles for each in inner]
    assert timelines._recordings == []
    with pytest.raises(KeyError), recorded():
        raise KeyError
    assert timelines._recordings == []


def test_rows_and_text() -> None:
    result = timeline(one_core(1, 16))
    assert result.rows[2] == {
        "column": 0,
        "row": 2,
        "tile": "core (0,2)",
        "lane": "core",
        "kind": "wait",
        "what": "x0",
        "start": 0,
        "end": START + 16,
    }
    assert result.columns() == {0: 27}
    lines = str(result).splitlines()
    assert lines[0] == "one core on npu2: 4,799 simulated cycles, 2.7 us"
    assert lines[3].split() == ["core", "(0,2)", "core", "2", "spans", "wait", "47%,", "compute", "1%"]


def test_the_drawing_is_well_formed_and_in_proportion() -> None:
    result = timeline(one_core(1, 16))
    root = ElementTree.fromstring(result.svg(width=190 + result.cycles * 4))
    name = "{http://www.w3.org/2000/svg}"
    spans = {
        rect.findtext(f"{name}title"): (float(rect.attrib["x"]), float(rect.attrib["width"]))
        for rect in root.iter(f"{name}rect")
        if rect.find(f"{name}title") is not None
    }
    assert spans[f"kernel call: nt_work, cycles {START + 36:,} to {START + 63:,}"] == (190 + (START + 36) * 4, 27 * 4)
    assert len(spans) == 6
    assert "simulated" in str(root.findtext(f"{name}title"))
    labels = [text.text for text in root.iter(f"{name}text")]
    assert labels.count("core (0,2)") == 1
    assert result._repr_html_() == result.svg()


def test_names_in_the_drawing_are_escaped_and_many_narrow_spans_are_few() -> None:
    spans = tuple(Span(Tile(0, 2), "core", "compute", "<f & g>", 2 * i, 2 * i + 1) for i in range(10_000))
    drawing = Timeline("<script>", ARRAYS["aie2"], 20_000, spans).svg()
    assert "<script>" not in drawing
    assert drawing.count("<rect") < 500
    text = "".join(ElementTree.fromstring(drawing).itertext())
    assert "<script>" in text
    assert "kernel call, 10000 times" in text
    one = Timeline("one", ARRAYS["aie2"], 1, spans[:1]).svg()
    assert "&lt;f &amp; g&gt;" in one


def test_kernels_of_the_families_have_timelines() -> None:
    if (missing := reason()) is not None:
        pytest.skip(missing)
    heard: list[events.Event] = []
    x = nt.randn(64, 64).to(nt.bfloat16).realize()
    with nt.default_device("sim:npu2?cols=1", policy="always"), events.listen(heard.append), recorded() as result:
        (x @ x).realize()
        (x * x).realize()
        (x * x).realize()
    counted = [event.simulated for event in heard if isinstance(event, events.KernelRan) and event.simulated]
    assert [event.timeline for event in counted] == [*result, result[1]]
    for event, each in zip(counted, result, strict=False):
        clock = each.array.clock_hz
        assert each.cycles >= event.cycles
        assert each.cycles >= event.stream_bytes / 4
        memory = event.ddr_bytes / npu_rates("npu2").ddr_bytes_per_second
        assert each.seconds >= memory
        assert each.seconds <= 3 * ((event.cycles + event.stream_bytes / 4) / clock + memory) + CONTROLLER
        assert each.columns() != {0: 0}


@pytest.mark.parametrize("uri", ["sim:npu1", "sim:npu2", "sim:npu2?cols=2"])
def test_a_run_that_memory_limits_takes_as_long_as_predicted(uri: str) -> None:
    if (missing := reason()) is not None:
        pytest.skip(missing)
    x = nt.ones(1 << 19, dtype=nt.bfloat16).realize()
    with nt.default_device(uri, policy="always"), recorded() as result:
        (x + 1).realize()
        (device,) = selection.accelerators(selection.current())
        rates = npu_rates(uri[4:8])
    assert isinstance(device, SimulatedDevice)
    # An operand and a result, at the rates of the host memory and of one channel each way.
    array, columns = device.target.array, device.target.columns
    moved = x.nbytes * max(2 / rates.ddr_bytes_per_second, 1 / (4 * array.clock_hz * columns))
    assert moved <= result[0].seconds <= 1.4 * moved + CONTROLLER
