"""The report of the benchmarks in Chromium: the drawing matches the figures."""

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
from made_up_results import CPU_RATE, MEASURED_NPU, NPU_RATE, NPU_START, RATIOS, SIMULATED_START, results

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
    """The report. Tests that only read it share one load."""
    result = Page(driver)
    result.reuse(report)
    yield result
    assert result.problems() == []


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
    expected: Counter[str] = Counter()
    for peer, ratio in RATIOS.items():
        for how in (1, 2, MEASURED_NPU, 2 * MEASURED_NPU):
            expected[f"{how * ratio:g}"] += cases[peer]
    assert Counter(label for label, _ in bars) == expected
    for label, width in bars:
        assert width == pytest.approx(abs(math.log2(float(label))) * octave, abs=1), label


def test_means_are_those_of_the_ratios(page: Page) -> None:
    text = page.text
    for peer, ratio in RATIOS.items():
        count = 22 if peer != "torch" else 18
        assert f"npu_tensor on cpu\t{peer}\t{ratio:.2f}\t{ratio:.2f}\t{count}\t0" in text
        assert f"npu_tensor jit on cpu\t{peer}\t{2 * ratio:.2f}\t{2 * ratio:.2f}\t{count}\t0" in text
        there = f"{MEASURED_NPU * ratio:.2f}"
        assert f"npu_tensor on npu\t{peer}\t{there}\t{there}\t{count - 10}\t0" in text


# --- roofline, crossover, decisions


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
    result = [
        (value_at(middle(box), *along), value_at(level(box), *up))
        for box in page.boxes("#plot-roofline .xy .scatterlayer .point")
    ]
    for x_value, y_value in expected:
        assert any(math.isclose(a, x_value, rel_tol=0.05) and math.isclose(b, y_value, rel_tol=0.05) for a, b in result)


def test_stars_stand_where_the_times_are_equal_to_those_without_recording(page: Page) -> None:
    jitted = 2 * CPU_RATE
    sizes = {
        f"{name} (": (start / 2 / (1 / jitted - 1 / NPU_RATE)) ** (1 / 3)
        for name, start in (("on npu2", NPU_START), ("on sim:npu2", SIMULATED_START))
    }
    marks = ticks(page, "#plot-crossover .xtick"), ticks(page, "#plot-crossover .x2tick")
    for axes, labels, names in (("xy", marks[0], ["on npu2 ("]), ("x2y2", marks[1], list(sizes))):
        stars = [box for box in page.boxes(f"#plot-crossover .{axes} .scatterlayer .point") if box.width > 12]
        drawn = [value_at(middle(star), (middle(labels["64"]), 64), (middle(labels["1024"]), 1024)) for star in stars]
        # Between two sizes the times are not powers of the size.
        assert sorted(drawn) == pytest.approx(sorted(sizes[name] for name in names), rel=0.03)
    said = re.findall(r"npu_tensor (?:jit )?(on .* \().* than npu_tensor jit on the CPU .* from n = (\d+)", page.text)
    assert len(said) == 3
    for name, size in said:
        assert int(size) == pytest.approx(sizes[name], rel=0.03)
    assert "float32 has sizes without a figure of npu1: made up to have no kernel." in page.text


def test_every_workload_with_a_prediction_has_a_cell(page: Page) -> None:
    rows = results()["rows"]
    cpu = {
        (row["case"], row["dtype"], row["size"]): row["p50"]
        for row in rows
        if (row["contender"], row["device"], row["kind"]) == ("npu_tensor jit", "cpu", "measured")
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


# --- tables


def test_percentiles_are_those_of_the_rows(page: Page) -> None:
    measured = [row for row in results()["rows"] if row["kind"] == "measured"]
    assert len(page.boxes("table.percentiles tbody tr")) == len(measured)
    page.run("document.querySelectorAll('details').forEach((details) => { details.open = true })")
    # 2 * 64^3 operations take 10.5 us at the rate of the CPU.
    line = "linear\t64x64\tfloat32\tnpu_tensor\tcpu\t10.5 us\t15.7 us\t21.0 us\t1.05 ms\t31.5 us\t30"
    assert line in page.text


def cells(page: str, table: str) -> list[str]:
    """The texts in the cells of a table with that class, row after row."""
    (result,) = re.findall(rf'<table class="{table}">(.*?)</table>', page, re.DOTALL)
    return re.findall(r"<td.*?>(.*?)</td>", result)


def test_regressions_are_listed(tmp_path: Path) -> None:
    before = copy.deepcopy(results())
    before["machine"] |= {"date": "2001-01-01T00:00:00+00:00", "governor": "powersave"}
    slower = next(row for row in before["rows"] if row["case"] == "gelu" and row["contender"] == "npu_tensor")
    slower["p50"] /= 2
    page = write_report(results(), tmp_path, before).read_text("utf-8")
    result = cells(page, "regressions")
    assert result[:6] == ["gelu", "32x32", "float32", "npu_tensor", "cpu", "measured"]
    assert result[8:] == ["2.00"]
    assert "Beside the results of 2001-01-01" in page
    assert "governor: powersave before, performance now" in page


# --- the page as a whole


def test_sections_without_data_say_so(tmp_path: Path) -> None:
    page = write_report(results() | {"rows": [], "ceilings": [], "left_out": []}, tmp_path).read_text("utf-8")
    assert '<div class="plot"' not in page
    assert page.count('<p class="missing">') == 7


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


def test_the_browser_may_load_nothing_else(report: Path, driver: Chrome) -> None:
    page = Page(driver)
    page.open(report)
    assert page.problems() == []
    page.run("new Image().src = 'http://127.0.0.1:9/picture.png'; fetch('http://127.0.0.1:9/data').catch(() => 0)")
    page.look()  # gives the requests time
    assert len([problem for problem in page.problems() if "Content Security Policy" in problem]) >= 2
