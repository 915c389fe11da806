"""Headless Chromium for tests of what is drawn; they are skipped where Chromium, its driver or Selenium is missing."""

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
CELL_SECONDS = 120
NEEDS = "needs nbclient, nbconvert and ipykernel, which the extra `test` has"

# What a fragment of HTML is surrounded with: a page that has no style of its own.
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
    # With the path of the driver, Selenium does not look for one to download.
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    try:
        yield found
    finally:
        found.quit()


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
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """Execute a notebook in an empty directory, once per process of pytest, and give it as HTML that stands alone.

    An error in a cell raises nbclient.exceptions.CellExecutionError.
    """
    nbclient = pytest.importorskip("nbclient", reason=NEEDS)
    nbconvert = pytest.importorskip("nbconvert", reason=NEEDS)
    pytest.importorskip("ipykernel", reason=NEEDS)
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    # Both scripts would come from a network, and nothing here needs them.
    exporter = nbconvert.HTMLExporter(require_js_url="data:text/javascript,", mathjax_url="data:text/javascript,")
    pages: dict[Path, Path] = {}

    def page(path: Path) -> Path:
        if path not in pages:
            directory = tmp_path_factory.mktemp("notebook")
            notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
            # Without directories of kernels there is only the one of this interpreter.
            manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
            where = {"metadata": {"path": str(directory), "name": path.stem}}
            client = nbclient.NotebookClient(notebook, km=manager, timeout=CELL_SECONDS, resources=where)
            client.execute(cleanup_kc=True)
            html, _ = exporter.from_notebook_node(notebook)
            pages[path] = directory / f"{path.stem}.html"
            pages[path].write_text(html, "utf-8")
        return pages[path]

    return page
