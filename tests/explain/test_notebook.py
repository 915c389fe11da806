"""HTML of tensors and explanations: well formed, escaped, and free: nothing is planned, computed or waited for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.drawing.card import MOST_DRAWN
from npu_tensor.explanation import MOST_HTML_ROWS, Explanation, Row
from npu_tensor.runtime.memory import Buffer

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing happens."""
    seen: list[events.Event] = []
    with events.listen(seen.append):
        yield
    assert seen == []


def read(html: str) -> ElementTree.Element:
    """The HTML as XML, which it is as well: every element is closed and every text escaped."""
    return ElementTree.fromstring(f"<root>{html}</root>")


def text(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


class Faraway:
    """A value in the memory of an NPU, which must not be read."""

    class home:
        uri = "npu:0"

    host: Buffer | None = None

    def as_array(self, *args: Any, **kwargs: Any) -> np.ndarray:
        assert self.host is not None, "somebody waits for the NPU"
        return self.host.as_array(*args, **kwargs)


def test_a_lazy_tensor_shows_what_is_to_be_run(quiet: None) -> None:
    x = nt.from_numpy(np.ones((2, 3), np.float32))
    y = ((x + 1) * 2).exp()
    page = read(cast(Any, y)._repr_html_())
    assert "Tensor(float32[2, 3], lazy: exp)" in text(page)
    details = page.find(".//details")
    assert details is not None
    assert "open" not in details.attrib
    assert details.findtext("summary") == "3 ops to run"
    assert len(page.findall(f".//{SVG}path")) == y.graph.number_of_edges()
    names = [group.findtext(f"{SVG}text") for group in page.iter(f"{SVG}g") if group.get("class") == "op lazy"]
    assert names == ["add", "mul", "exp"]
    assert not y.is_realized


def test_a_long_graph_is_counted_no_further_than_it_is_drawn(quiet: None) -> None:
    def chain(ops: int) -> nt.Tensor:
        x = nt.from_numpy(np.ones(3, np.float32))
        for _ in range(ops):
            x = x + 1
        return x

    assert f"{MOST_DRAWN} ops to run" in chain(MOST_DRAWN)._repr_html_()
    longer = read(chain(MOST_DRAWN + 1)._repr_html_())
    assert f"more than {MOST_DRAWN} ops to run" in text(longer)
    assert longer.find(f".//{SVG}svg") is None


def test_a_realized_tensor_shows_its_value(quiet: None) -> None:
    x = nt.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    page = read(x._repr_html_())
    assert text(page).startswith("float32[2, 3], 24 bytes on cpu")
    assert page.findtext(".//pre") == repr(x)


@pytest.mark.parametrize("dtype", [nt.float32, nt.int32, nt.bfloat16, nt.bool])
@pytest.mark.parametrize("shape", [(), (0,), (200,), (201,), (7, 40), (6, 50), (3, 3, 40), (1, 1000), (2, 0, 300)])
def test_values_are_cut_as_numpy_cuts_them(shape: tuple[int, ...], dtype: nt.DType) -> None:
    values = np.random.default_rng(0).normal(0, 100, shape)
    x = nt.from_numpy(values.astype(np.float32)).to(dtype).realize()
    array = x.numpy().astype(np.float32) if dtype is nt.bfloat16 else x.numpy()
    shown = np.array2string(array, separator=", ", threshold=200, edgeitems=3, precision=4, prefix="Tensor(")
    if shape == (2, 0, 300):
        shown += ", shape=[2, 0, 300]"
    assert repr(x) == str(x) == f"Tensor({shown}, dtype={dtype.name})"


def test_a_value_on_an_npu_is_not_read(quiet: None) -> None:
    x = nt.from_numpy(np.ones(4, np.float32))
    x._node.value = faraway = Faraway()
    assert repr(x) == "Tensor(float32[4], on npu:0)"
    assert "16 bytes on npu:0" in text(read(x._repr_html_()))
    y = x + 1
    assert "lazy: add" in repr(y)
    assert "1 op to run" in y._repr_html_()
    faraway.host = Buffer.from_array(np.ones(4, np.float32))  # somebody has looked: now the host has it, too
    assert repr(x) == "Tensor([1., 1., 1., 1.], dtype=float32)"


def test_arguments_of_a_function_that_is_captured_have_no_value() -> None:
    seen: list[str] = []

    @nt.jit
    def step(x: nt.Tensor) -> nt.Tensor:
        seen.extend((repr(x), x._repr_html_(), (x + 1)._repr_html_()))
        return x * 2

    step(nt.ones(3).realize())
    assert seen[0] == "Tensor(float32[3], argument of a function that is being captured)"
    assert text(read(seen[1])) == seen[0]
    assert "1 op to run" in text(read(seen[2]))


def test_an_explanation_is_a_table_and_a_picture() -> None:
    x = nt.ones(3, 5).realize()
    out = ((x * 2 + 1).cumsum(0).T @ x).relu()
    table = nt.explain(out)
    seen: list[events.Event] = []
    with events.listen(seen.append):
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
    details = page.find(".//details")
    assert details is not None
    assert "open" in details.attrib
    assert len(page.findall(f".//{SVG}path")) == out.graph.number_of_edges()
    out.realize()
    assert "measured" in [cell.text for cell in read(table._repr_html_()).findall(".//th")]


def test_texts_stay_texts() -> None:
    hostile = '<img src=x onerror="alert(1)">&amp;\x00\ud800</td>'
    row = Row(hostile, hostile, "cpu", hostile, hostile, 1.0, 2.0, 3, hostile, hostile)
    page = read(Explanation([row])._repr_html_())
    assert page.find(".//img") is None
    shown = hostile.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert [text(cell) for cell in page.findall(".//td")].count(shown) == 6


def test_long_tables_are_cut_and_say_so() -> None:
    many = Explanation([Row("add", "f32[1]", "cpu")] * (MOST_HTML_ROWS + 7))
    page = read(many._repr_html_())
    assert len(page.findall(".//tbody/tr")) == MOST_HTML_ROWS
    assert "7 more ops" in text(page)
    details = page.find(".//details")
    assert details is not None
    assert "open" not in details.attrib


def test_nothing_to_explain() -> None:
    assert "nothing to run" in text(read(nt.explain(nt.ones(3).realize())._repr_html_()))


def test_a_saved_page_is_whole(tmp_path: Any) -> None:
    nt.explain(nt.ones(3).realize() + 1).save(tmp_path / "page.html")
    start, _, rest = (tmp_path / "page.html").read_text("utf-8").partition("\n")
    assert start == "<!DOCTYPE html>"
    assert ElementTree.fromstring(rest).find(f".//{SVG}svg") is not None
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", rest)


def test_a_notebook_asks_for_html_and_text() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(nt.ones(3).realize() + 1)
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"] == "Tensor(float32[3], lazy: add)"
