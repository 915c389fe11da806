"""Headless Chromium for tests of drawings; they are skipped if Chromium, its driver or Selenium is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_page import Page, Rendered, Show

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

# --no-sandbox: the sandbox needs user namespaces, which containers seldom have. The others keep the browser itself
# from the network, so that every request that is seen is one of the page.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NEEDS = "needs nbclient, nbconvert and ipykernel, which the extra `test` has"

# Page without a style of its own, around a fragment of HTML.
DOCUMENT = '<!doctype html><html lang="en"><meta charset="utf-8"><title>test</title><body>{}</body></html>'


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser per process of pytest."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs Selenium, which the extra `test` has")
    browser, service = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or service is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the path of the driver, Selenium does not download one.
    result = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    try:
        yield result
    finally:
        result.quit()


@pytest.fixture
def show(driver: Chrome, tmp_path: Path) -> Iterator[Show]:
    """Open a file, or a fragment of HTML or SVG. The test fails if a page complained or asked for anything outside."""
    page = Page(driver)
    problems: list[str] = []

    def opened(source: Path | str) -> Page:
        problems.extend(page.problems())
        if isinstance(source, str):
            path = tmp_path / "page.html"
            path.write_text(DOCUMENT.format(source), "utf-8")
        else:
            path = source
        page.open(path)
        return page

    yield opened
    problems.extend(page.problems())
    assert not problems


@pytest.fixture(scope="session")
def rendered(run_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """Executes a notebook of examples/, once for all processes of pytest, and gives it as HTML that stands alone.

    An error in a cell raises nbclient.exceptions.CellExecutionError.
    """
    pytest.importorskip("nbclient", reason=NEEDS)
    nbconvert = pytest.importorskip("nbconvert", reason=NEEDS)
    pytest.importorskip("ipykernel", reason=NEEDS)
    from notebook_runs import executed

    # Both scripts would come from a network, and nothing here needs them.
    exporter = nbconvert.HTMLExporter(require_js_url="data:text/javascript,", mathjax_url="data:text/javascript,")

    def page(path: Path) -> Path:
        html, _ = exporter.from_notebook_node(executed(path, run_directory))
        written = tmp_path_factory.mktemp("notebook") / f"{path.stem}.html"
        written.write_text(html, "utf-8")
        return written

    return page
