"""What a notebook shows of tensors, explanations, profiles and timelines, as Chromium draws it."""

from __future__ import annotations

import numpy as np
import pytest
from browser_page import READABLE, Page, Show, overlaps
from drawn_graphs import check

import npu_tensor as nt
from npu_tensor.runtime.sim import host_compiler, timeline

needs_compiler = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))


def values(*shape: int) -> nt.Tensor:
    """bfloat16."""
    return nt.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32)).to(nt.bfloat16).realize()


def graph() -> nt.Tensor:
    """Several kernels, and values that are read more than once."""
    x = values(64, 128)
    h = nt.rms_norm(x, (128,))
    return nt.softmax((x + nt.silu(h @ values(128, 128)) * h) @ values(128, 64), -1)


def check_text(page: Page) -> None:
    """Nothing covers a text, and all can be read."""
    assert overlaps(page.texts()) == []
    assert [text for ratio, text in page.text_contrasts() if ratio < READABLE] == []


def test_an_explanation_is_a_table_and_a_picture(show: Show) -> None:
    found = nt.explain(graph())
    page = show(found._repr_html_())
    check(page)
    check_text(page)
    assert [box.text for box in page.boxes("tbody td:nth-child(2)")] == [row.op for row in found]
    assert sorted(box.text for box in page.boxes("g.op > text:first-of-type")) == sorted(row.op for row in found)
    assert len(page.boxes("g.kernel")) == sum(row.predicted is not None for row in found)


def test_the_pointer_tells_more_about_every_op_and_kernel(show: Show) -> None:
    page = show(nt.explain(graph()).svg())
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.querySelector('title')?.textContent ?? '')"
    for group in ("g.op", "g.kernel"):
        tips = page.run(script, group)
        assert tips
        assert all("predicted" in tip for tip in tips), group


@needs_compiler
def test_ops_of_the_processor_and_of_a_simulated_npu_have_other_colours(show: Show) -> None:
    x = values(32, 32)
    with nt.default_device("sim:npu2"):
        found = nt.explain((x + x).argsort(-1))
    assert {row.op: row.device for row in found} == {"add": "sim:npu2", "argsort": "cpu"}
    page = show(found._repr_html_())
    check(page)
    check_text(page)
    (cpu,), (sim,) = (set(page.styles(f"g.op.{kind} > rect", "fill")) for kind in ("cpu", "sim"))
    assert cpu != sim
    badges = page.styles("tbody td:nth-child(4) span", "backgroundColor")
    assert badges == [sim, cpu]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pending_tensor_has_its_ops_folded_up(show: Show, scheme: str) -> None:
    page = show(graph()._repr_html_())
    page.look(scheme="dark" if scheme == "dark" else "light")
    assert page.texts("svg") == []
    page.run("document.querySelector('details').open = true")
    check(page)
    check_text(page)
    assert "softmax" in [box.text for box in page.texts("svg")]


def test_a_computed_tensor_shows_its_values(show: Show) -> None:
    page = show(nt.tensor([1.5, -2.0]).realize()._repr_html_())
    assert "[ 1.5000, -2.0000]" in page.text
    assert page.boxes("svg") == []
    check_text(page)


@needs_compiler
def test_a_timeline_has_a_row_per_lane_and_spans_as_long_as_they_took(show: Show) -> None:
    x, w = values(64, 128), values(128, 64)
    with nt.default_device("sim:npu2"), timeline.recorded() as found:
        (x @ w).realize()
    (recorded,) = found
    page = show(recorded.svg())
    (paper,) = page.boxes("svg")
    check_text(page)
    assert all(paper.holds(text) for text in page.texts("svg"))
    rows = page.boxes("svg > rect[fill='#eeeeee']")
    lanes = recorded.lanes()
    assert len(rows) == len(lanes)
    assert overlaps(rows) == []
    spans = page.boxes("svg > rect:has(title)")
    assert all(any(row.holds(span) for row in rows) for span in spans)
    assert len(set(page.styles("svg > rect:has(title)", "fill"))) == len({span.kind for span in recorded.spans})
    for row, members in zip(rows, lanes.values(), strict=True):
        drawn = sum(span.width for span in spans if row.holds(span)) / row.width
        assert drawn == pytest.approx(sum(span.cycles for span in members) / recorded.cycles, abs=0.02)


def test_a_profile_is_a_table(show: Show) -> None:
    with nt.profile() as found:
        graph().realize()
    page = show(found._repr_html_())
    check_text(page)
    assert page.boxes("tbody tr")
