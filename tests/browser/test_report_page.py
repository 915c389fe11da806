"""The report of the benchmarks as Chromium draws it: what is drawn follows from the figures."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_page import READABLE, VISIBLE, Box, Page, Show, overlaps
from made_up_results import CPU_RATE, NPU_RATE, NPU_START, RATIOS, results

for needed in ("plotly", "jinja2", "jsonschema"):
    pytest.importorskip(needed, reason="the report needs the extra `bench`")

from benchmarks.report_page import write_report  # noqa: E402
from benchmarks.results import validate  # noqa: E402

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PLOTS = ("speedup-ops", "speedup-matmul", "plot-roofline", "plot-crossover", "decisions-npu1", "decisions-npu2")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    validate(results())
    return write_report(results(), tmp_path_factory.mktemp("report") / "out")


@pytest.fixture
def page(report: Path, driver: Chrome) -> Iterator[Page]:
    """The report; it is not loaded anew for every test that only looks at it."""
    found = Page(driver)
    found.reuse(report)
    yield found
    assert found.problems() == []


def ticks(page: Page, axis: str) -> dict[str, Box]:
    """The labels of an axis, by their text."""
    return {box.text: box for box in page.texts(f"{axis} text")}


def middle(box: Box) -> float:
    return (box.left + box.right) / 2


def level(box: Box) -> float:
    return (box.top + box.bottom) / 2


def value_at(x: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    """The value at a place on a logarithmic axis; low, high: place and value of two marks."""
    part = (x - low[0]) / (high[0] - low[0])
    return float(low[1] * (high[1] / low[1]) ** part)


# --- speed-up


def test_there_is_a_bar_for_every_pair_as_long_as_the_logarithm_of_its_ratio(page: Page) -> None:
    marks = ticks(page, "#speedup-ops .xtick")
    octave = (middle(marks["4"]) - middle(marks["1"])) / 2
    bars = page.run(
        "return [...document.querySelectorAll('#speedup-ops .bars .point:has(text)')].map((point) => {"
        " const r = point.querySelector('path').getBoundingClientRect();"
        " return [point.querySelector('text').textContent, r.width] })"
    )
    cases = {"numpy": 12, "torch": 8, "jax": 12}  # PyTorch has no exp
    expected = Counter({f"{how * ratio:g}": cases[peer] for peer, ratio in RATIOS.items() for how in (1, 2)})
    assert Counter(label for label, _ in bars) == expected
    for label, width in bars:
        assert width == pytest.approx(abs(math.log2(float(label))) * octave, abs=1), label


def test_bars_of_slower_cases_go_to_the_other_side_and_are_hatched(page: Page) -> None:
    fills = page.run(
        "return [...document.querySelectorAll('#speedup-ops .bars .point:has(text)')].map((point) =>"
        " [point.querySelector('text').textContent, getComputedStyle(point.querySelector('path')).fill])"
    )
    assert {label for label, fill in fills if fill.startswith("url(")} == {"0.5"}
    one = middle(ticks(page, "#speedup-ops .x2tick")["1"])
    slower = [box for box in page.boxes("#speedup-ops .x2y2 .bars .point path") if box.width > 1]
    assert len(slower) == 8
    assert all(box.right == pytest.approx(one, abs=1.5) for box in slower)


def test_means_are_those_of_the_ratios(page: Page) -> None:
    text = page.text
    for peer, ratio in RATIOS.items():
        count = 22 if peer != "torch" else 18
        assert f"npu_tensor\t{peer}\t{ratio:.2f}\t{ratio:.2f}\t{count}" in text
        assert f"npu_tensor jit\t{peer}\t{2 * ratio:.2f}\t{2 * ratio:.2f}\t{count}" in text


# --- roofline, crossover, decisions


def test_every_row_has_its_point_on_the_roofline(page: Page) -> None:
    rows = [row for row in results()["rows"] if row["contender"].startswith("npu_tensor")]
    assert len(page.boxes("#plot-roofline .scatterlayer .point")) == len(rows)
    fills = page.styles("#plot-roofline .scatterlayer .point", "fill")
    assert fills.count("none") == sum(row["kind"] != "measured" for row in rows)


def test_points_of_the_roofline_are_at_their_rate_and_intensity(page: Page) -> None:
    x, y = ticks(page, "#plot-roofline .xtick"), ticks(page, "#plot-roofline .ytick")
    rows = [row for row in results()["rows"] if (row["suite"], row["dtype"]) == ("matmul", "float32")]
    expected = [
        (row["flops"] / row["bytes"], CPU_RATE / 1e9 * {"npu_tensor": 1, "npu_tensor jit": 2}[row["contender"]])
        for row in rows
        if row["kind"] == "measured" and row["contender"].startswith("npu_tensor")
    ]
    along = (middle(x["1"]), 1), (middle(x["100"]), 100)
    up = (level(y["1"]), 1), (level(y["100"]), 100)
    found = [
        (value_at(middle(box), *along), value_at(level(box), *up))
        for box in page.boxes("#plot-roofline .xy .scatterlayer .point")
    ]
    for x_value, y_value in expected:
        assert any(math.isclose(a, x_value, rel_tol=0.05) and math.isclose(b, y_value, rel_tol=0.05) for a, b in found)


def test_the_star_stands_where_the_times_are_equal(page: Page) -> None:
    marks = ticks(page, "#plot-crossover .xtick")
    size = (NPU_START / 2 / (1 / CPU_RATE - 1 / NPU_RATE)) ** (1 / 3)
    stars = [box for box in page.boxes("#plot-crossover .xy .scatterlayer .point") if box.width > 12]
    assert len(stars) == 1
    drawn = value_at(middle(stars[0]), (middle(marks["64"]), 64), (middle(marks["1024"]), 1024))
    assert drawn == pytest.approx(size, rel=0.02)  # between two sizes the times are no powers of the size
    (said,) = {int(found) for found in re.findall(r"npu2 \(predicted\) takes less .* from n = (\d+) on", page.text)}
    assert said == pytest.approx(size, rel=0.02)


def test_every_workload_with_a_prediction_has_a_cell(page: Page) -> None:
    rows = results()["rows"]
    cpu = {
        (row["case"], row["dtype"], row["size"]): row["p50"]
        for row in rows
        if (row["contender"], row["kind"]) == ("npu_tensor", "measured")
    }
    for generation in ("npu1", "npu2"):
        npu = [row for row in rows if (row["device"], row["kind"]) == (generation, "predicted")]
        expected = Counter("NPU" if row["p50"] < cpu[row["case"], row["dtype"], row["size"]] else "CPU" for row in npu)
        cells = page.boxes(f"#decisions-{generation} .heatmap-label text")
        assert Counter(box.text.split()[0] for box in cells) == expected
    assert set(expected) == {"CPU", "NPU"}


# --- text


@pytest.mark.parametrize("width", [1280, 1000])
def test_no_text_covers_another_or_leaves_the_page(page: Page, width: int) -> None:
    page.look(width=width)
    for plot in PLOTS:
        texts = page.texts(f"#{plot}")
        assert texts
        assert overlaps(texts) == [], plot
        assert min(text.left for text in texts) >= 0, plot
        assert max(text.right for text in texts) <= page.width, plot
    assert page.run("return document.documentElement.scrollWidth") <= page.width


def test_axes_have_titles_with_units(page: Page) -> None:
    titles = {plot: {box.text for box in page.texts(f"#{plot} .infolayer")} for plot in PLOTS}
    for plot in ("speedup-ops", "speedup-matmul"):
        assert {*RATIOS, "times as fast"} <= titles[plot]
    assert {"arithmetic intensity (FLOP per byte)", "GFLOP/s"} <= titles["plot-roofline"]
    assert {"n of n x n by n x n", "time"} <= titles["plot-crossover"]
    assert {text[-1] for text in ticks(page, "#plot-crossover .ytick")} == {"s"}
    assert "size of the first operand" in titles["decisions-npu2"]


def test_every_section_says_where_its_figures_come_from(page: Page) -> None:
    words = {
        heading.text.splitlines()[0].split("measured")[0].split("predicted")[0].strip(): heading.text
        for heading in page.boxes("h2")
    }
    for heading, kinds in {
        "Speed-up against each peer": ["measured"],
        "Roofline": ["measured", "predicted", "simulated"],
        "Matrix products: from which size on an NPU takes less": ["measured", "predicted", "simulated"],
        "Decision map": ["predicted", "measured"],
    }.items():
        assert all(kind in words[heading] for kind in kinds), heading


@pytest.mark.parametrize(
    ("plot", "mark", "words"),
    [
        ("speedup-ops", ".bars .point:has(text)", ["add 32x32 float32", "4.00 times as fast (measured)", "numpy"]),
        ("plot-roofline", ".scatterlayer .point", ["32x32 float32", "measured", "GFLOP/s", "0.125 FLOP per byte"]),
        ("plot-crossover", ".scatterlayer .point", ["npu_tensor on cpu, measured", "64 x 64", "10.5µs"]),
        ("decisions-npu2", ".heatmap-label", ["add float32 32x32", "npu2, predicted: 400.0 us", "CPU, measured"]),
    ],
)
def test_the_pointer_finds_the_numbers(page: Page, plot: str, mark: str, words: list[str]) -> None:
    page.point(page.boxes(f"#{plot} {mark}")[0])
    text = " ".join(box.text for box in page.boxes(f"#{plot} .hoverlayer .hovertext"))
    assert all(word in text for word in words), text


@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("dark", "print")])
def test_everything_can_be_read_light_dark_and_on_paper(page: Page, scheme: Any, media: Any) -> None:
    page.look(scheme=scheme, media=media)
    (background,) = page.styles("body", "backgroundColor")
    assert (background == "rgb(20, 22, 26)") == ((scheme, media) == ("dark", "screen"))
    cells = {box.text for box in page.boxes(".heatmap-label text")}
    faint = [(ratio, text) for ratio, text in page.text_contrasts() if ratio < READABLE and text not in cells]
    assert faint == []
    for selector, style in (
        (".bars .point path:not([style*='url'])", "fill"),
        ("pattern path", "stroke"),
        (".scatterlayer .js-line", "stroke"),
        (".scatterlayer .point[style*='fill: none']", "stroke"),
        (".scatterlayer .point:not([style*='fill: none'])", "fill"),
    ):
        assert min(page.contrasts(selector, style)) >= VISIBLE, selector


def test_cells_of_the_decision_map_can_be_read(page: Page, show: Show) -> None:
    # Cells are pixels of an image, whose colours are those of its scale: CPU and NPU.
    scale = "return document.getElementById('decisions-npu2')._fullData[0].colorscale.map((stop) => stop[1])"
    colours = page.run(scale)
    inks = set(page.styles(".heatmap-label text", "fill"))
    page = show("".join(f"<p style='background: {a}; color: {b}'>{a} {b}</p>" for a in colours for b in inks))
    assert [text for ratio, text in page.text_contrasts("p") if ratio < READABLE] == []


# --- tables


def test_percentiles_are_those_of_the_rows(page: Page) -> None:
    measured = [row for row in results()["rows"] if row["kind"] == "measured"]
    assert len(page.boxes("table.percentiles tbody tr")) == len(measured)
    page.run("document.querySelectorAll('details').forEach((details) => { details.open = true })")
    # 2 * 64^3 operations take 10.5 us at the rate of the CPU.
    line = "linear\t64x64\tfloat32\tnpu_tensor\tcpu\t10.5 us\t15.7 us\t21.0 us\t1.05 ms\t31.5 us\t30"
    assert line in page.text


def test_regressions_are_listed(show: Show, tmp_path: Path) -> None:
    before = copy.deepcopy(results())
    before["machine"] |= {"date": "2001-01-01T00:00:00+00:00", "governor": "powersave"}
    slower = next(row for row in before["rows"] if row["case"] == "gelu" and row["contender"] == "npu_tensor")
    slower["p50"] /= 2
    page = show(write_report(results(), tmp_path, before))
    (line,) = page.boxes("table.regressions tbody tr")
    assert [cell.text for cell in page.boxes("table.regressions tbody td")][:4] == [
        "gelu",
        "32x32",
        "float32",
        "npu_tensor",
    ]
    assert "2.00" in line.text
    assert "Beside the results of 2001-01-01" in page.text
    assert "governor: powersave before, performance now" in page.text


def test_nothing_slower_is_said(show: Show, tmp_path: Path) -> None:
    page = show(write_report(results(), tmp_path, results()))
    assert page.boxes("table.regressions") == []
    assert "Nothing became slower" in page.text


# --- the page as a whole


def test_sections_without_data_say_so(show: Show, tmp_path: Path) -> None:
    page = show(write_report(results() | {"rows": [], "ceilings": [], "left_out": []}, tmp_path))
    assert page.boxes(".plot") == []
    assert len(page.boxes(".missing")) == 7


def test_a_session_without_peers_has_everything_else(show: Show, tmp_path: Path) -> None:
    alone = results()
    alone["rows"] = [row for row in alone["rows"] if row["contender"] not in RATIOS]
    page = show(write_report(alone, tmp_path))
    assert "No peer was measured" in page.text
    assert len(page.boxes(".plot")) == 4


def test_what_results_say_is_text(show: Show, tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    changed = results()
    changed["machine"]["processor"] = changed["left_out"][0]["reason"] = bad
    for row in changed["rows"]:
        if row["case"] == "gelu":
            row["case"] = bad
    page = show(write_report(changed, tmp_path))
    assert bad in page.text
    assert page.boxes("img") == []
    assert len(page.boxes(".plot")) == len(PLOTS)


def test_no_address_outside_the_page_is_named(report: Path) -> None:
    page = report.read_text("utf-8")
    library = re.search(r'<script id="plotly-js">.*?</script>', page, re.DOTALL)
    assert library is not None
    assert re.findall(r"""(?:https?:|["'(])//[^\s"']+""", page.replace(library[0], "")) == []
    assert page.count("plotly.js v") == 1


def test_the_browser_may_load_nothing_else(report: Path, driver: Chrome) -> None:
    page = Page(driver)
    page.open(report)
    assert page.problems() == []
    page.run("new Image().src = 'http://127.0.0.1:9/picture.png'; fetch('http://127.0.0.1:9/data').catch(() => 0)")
    page.look()  # gives the requests time
    assert len([problem for problem in page.problems() if "Content Security Policy" in problem]) >= 2


def test_plots_fit_the_paper(page: Page) -> None:
    page.run(
        "addEventListener('beforeprint', () => { window.printed ="
        " [...document.querySelectorAll('.main-svg')].map((svg) => svg.getBoundingClientRect().width) })"
    )
    assert page.print().startswith(b"%PDF")
    widths = page.run("return window.printed")
    assert widths
    assert max(widths) <= 720  # A4 without margins of 10 mm is 718 pixels of 1/96 inch wide
    page.look()
    assert max(box.width for box in page.boxes(".main-svg")) > 1000
