"""The checks of the harness fail on faulty pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_page import Box, Page, Show, overlaps

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>console.error('a complaint')</script>", "a complaint"),
        ("<script>throw new Error('not caught')</script>", "not caught"),
        ("<img src='http://127.0.0.1:9/picture.png'>", "requests http://127.0.0.1:9/picture.png"),
        ("<img src='other.png'>", "other.png"),
        ("<style>body { background: url(http://127.0.0.1:9/b.png) }</style>", "requests http://127.0.0.1:9/b.png"),
        ("<script>new WebSocket('ws://127.0.0.1:9/s')</script>", "requests ws://127.0.0.1:9/s"),
    ],
)
def test_complaints_and_requests_are_problems(driver: Chrome, tmp_path: Path, body: str, problem: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>x</title><body>{body}")
    page = Page(driver)
    page.open(path)
    assert any(problem in result for result in page.problems())


def test_a_page_with_everything_inside_has_no_problems(driver: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<!doctype html><title>x</title><script>console.log('fine')</script>"
        "<img src='data:image/svg+xml,<svg xmlns=\"http://www.w3.org/2000/svg\"/>'>"
    )
    page = Page(driver)
    page.open(path)
    assert page.problems() == []


def test_boxes_are_where_they_are_drawn(show: Show) -> None:
    page = show(
        "<style>body { margin: 0; height: 3000px } div { position: absolute; width: 30px; height: 20px }</style>"
        "<div style='left: 10px; top: 2000px'>a</div><div style='left: 35px; top: 2015px; color: #777'>b</div>"
    )
    page.run("scrollTo(0, 1000)")
    a, b = page.boxes("div")
    assert (a, b) == (Box(10, 2000, 40, 2020, "a"), Box(35, 2015, 65, 2035, "b"))
    assert overlaps([a, b]) == [(a, b)]
    assert overlaps([a, b], slack=5) == []
    assert [text.text for text in page.texts("div")] == ["a", "b"]
    assert a.holds(page.texts("div")[0])
    assert not a.holds(b)


def test_hidden_text_is_no_text(show: Show) -> None:
    page = show("<p>seen</p><p style='display: none'>hidden</p><svg><title>tip</title><text y='20'>drawn</text></svg>")
    assert [box.text for box in page.texts()] == ["seen", "drawn"]


def test_contrast_is_that_of_the_guidelines(show: Show) -> None:
    # 21:1 and, for #777 on white, 4.48:1 are the examples that the guidelines' own texts give.
    page = show("<p>black</p><p style='color: #777'>grey</p><p style='color: white; background: black'>white</p>")
    assert {text: round(ratio, 2) for ratio, text in page.text_contrasts()} == {"black": 21, "grey": 4.48, "white": 21}


def test_the_colour_scheme_and_the_medium_are_emulated(show: Show) -> None:
    page = show("<p>text</p>")
    script = "return [matchMedia('(prefers-color-scheme: dark)').matches, matchMedia('print').matches, innerWidth]"
    assert page.run(script) == [False, False, 1280]
    page.look(width=600, scheme="dark", media="print")
    assert page.run(script) == [True, True, 600]
