"""HTML of tensors and explanations: well formed and escaped; explanations compute nothing."""

from typing import Any
from xml.etree import ElementTree

import numpy as np
from running import heard, in_thread

import npu_tensor as nt
from npu_tensor.observe.drawing.card import MOST_DRAWN
from npu_tensor.observe.explanation import Explanation, Row
from npu_tensor.planner import selection
from npu_tensor.runtime.memory import Buffer

SVG = "{http://www.w3.org/2000/svg}"


def read(html: str) -> ElementTree.Element:
    """The HTML as XML, which it is as well: every element is closed and every text escaped."""
    return ElementTree.fromstring(f"<root>{html}</root>")


def text(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


class Faraway:
    """A value in the memory of an NPU. read: what comes back, if it can."""

    class home:
        uri = "npu:0"

    host: Buffer | None = None
    read: Buffer | None = None

    def as_array(self, *args: Any, **kwargs: Any) -> np.ndarray:
        if self.read is None:
            raise nt.LaunchError("the NPU is away")
        return self.read.as_array(*args, **kwargs)


def test_a_tensor_shows_its_value_and_what_was_recorded_for_it() -> None:
    x = nt.from_numpy(np.ones((2, 3), np.float32))
    y = ((x + 1) * 2).exp()
    edges = y.graph.number_of_edges()
    page = read(y._repr_html_())
    shown = page.findtext(".//pre")
    assert shown == repr(y)
    assert "[54.598" in shown  # The last digit depends on the processor's instructions.
    assert text(page).startswith(f"{shown}float32[2, 3], 24 bytes on cpu3 ops recorded")
    assert "open" not in page.find(".//details").attrib
    assert len(page.findall(f".//{SVG}path")) == edges
    names = [group.findtext(f"{SVG}text") for group in page.iter(f"{SVG}g") if group.get("class") == "op lazy"]
    assert names == ["add", "mul", "exp"]
    again = read(y._repr_html_())
    assert again.findtext(".//pre") == shown
    assert again.find(f".//{SVG}svg") is None


def test_a_long_graph_is_counted_no_further_than_it_is_drawn() -> None:
    def chain(ops: int) -> nt.Tensor:
        x = nt.from_numpy(np.ones(3, np.float32))
        for _ in range(ops):
            x = x + 1
        return x

    assert f"{MOST_DRAWN} ops recorded" in chain(MOST_DRAWN)._repr_html_()
    longer = read(chain(MOST_DRAWN + 1)._repr_html_())
    assert f"more than {MOST_DRAWN} ops recorded" in text(longer)
    assert longer.find(f".//{SVG}svg") is None


def test_a_value_that_cannot_be_read_shows_the_reason() -> None:
    x = nt.from_numpy(np.ones(4, np.float32))
    x._node.value = Faraway()
    with heard() as seen:
        assert repr(x) == "Tensor(float32[4], <LaunchError: the NPU is away>)"
        with selection.lock:
            shown = in_thread(lambda: repr(x))
    assert (shown, seen) == ("Tensor(float32[4], on npu:0; not fetched: another thread is computing)", [])


def test_arguments_of_a_function_that_is_captured_have_no_value() -> None:
    seen: list[str] = []

    @nt.jit
    def step(x: nt.Tensor) -> nt.Tensor:
        seen.extend((repr(x), x._repr_html_(), (x + 1)._repr_html_()))
        return x * 2

    step(nt.ones(3).realize())
    assert seen[0] == "Tensor(float32[3], argument of a function that is being captured)"
    assert text(read(seen[1])) == seen[0]
    assert "not computed: a function is being captured" in seen[2]
    assert "1 op recorded" in text(read(seen[2]))


def test_an_explanation_is_a_table_and_a_picture() -> None:
    x = nt.ones(3, 5).realize()
    out = ((x * 2 + 1).cumsum(0).T @ x).relu()
    table = nt.explain(out)
    with heard() as seen:
        page = read(table._repr_html_())
    assert seen == []
    head = [cell.text for cell in page.findall(".//th")]
    assert head == ["#", "op", "out", "device", "kernel", "origin", "predicted", "bytes", "why", "line"]
    rows = page.findall(".//tbody/tr")
    assert len(rows) == len(table)
    for shown, row in zip(rows, table, strict=True):
        cells = dict(zip(head, map(text, shown), strict=True))
        assert (cells["op"], cells["out"], cells["why"], cells["line"]) == (row.op, row.out, row.why, row.line)
        assert cells["device"] == row.device.replace("-", "")
    assert str(table).splitlines()[-1] in text(page)
    assert "open" in page.find(".//details").attrib
    assert len(page.findall(f".//{SVG}path")) == out.graph.number_of_edges()
    with table.measure():
        out.realize()
    assert "measured" in [cell.text for cell in read(table._repr_html_()).findall(".//th")]


def test_texts_stay_texts() -> None:
    hostile = '<img src=x onerror="alert(1)">&amp;\x00\ud800</td>'
    row = Row(hostile, hostile, "cpu", hostile, hostile, 1.0, 2.0, 3, hostile, hostile)
    page = read(Explanation([row])._repr_html_())
    assert page.find(".//img") is None
    shown = hostile.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert [text(cell) for cell in page.findall(".//td")].count(shown) == 6
