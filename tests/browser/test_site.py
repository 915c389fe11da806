"""The site: nothing is wider than the window, and the search leads to the page of a function."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

WIDTHS = (1400, 1000, 390)

FIRST_RESULT = """\
const done = arguments[1];
document.querySelector("input[name=query]").value = arguments[0];
document.querySelector("input[name=query]").dispatchEvent(new Event("keyup", {bubbles: true}));
const wait = () => {
  const link = document.querySelector(".md-search-result__item > a");
  if (link) done(new URL(link.href).pathname); else setTimeout(wait, 50);
};
wait();
"""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Address of the site on this machine. Browsers do not support the search in pages opened from disk."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_the_window(address: str, driver: "Chrome", width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for page in ("functions/softmax", "ops", "notebooks/01_first_steps"):
        driver.get(f"{address}/{page}/")
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        inside, hidden, words = driver.execute_script(
            "const tables = [...document.querySelectorAll('article table')];"
            "return [tables.every(t => t.scrollWidth <= t.parentElement.clientWidth + 1),"
            " getComputedStyle(tables[0] ?? document.body).display === 'none', document.body.innerText];"
        )
        assert inside
        assert not hidden
        assert page.rpartition("/")[2].partition("_")[2].replace("_", " ") in words.lower()
    driver.get(f"{address}/ops/")
    lines = driver.execute_script(
        "const row = [...document.querySelectorAll('.stacked tr')].find(r => r.innerText.trim().startsWith('softmax'));"
        "return new Set([...row.cells].map(c => c.getBoundingClientRect().top)).size;"
    )
    assert lines == (5 if width == 390 else 1)  # On a phone the cells of a row stand below each other.


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("softmax", "/functions/softmax/"),
        ("add", "/functions/add/"),
        ("sum", "/functions/sum/"),
        ("dataloader", "/coming_from/"),
        ("conv2d", "/functions/conv2d/"),
        ("clip", "/functions/clip/"),
        ("rms_norm", "/functions/rms_norm/"),
        ("timing", "/timing/"),
    ],
)
def test_search_leads_to_the_page(address: str, driver: "Chrome", word: str, page: str) -> None:
    driver.get(f"{address}/")
    driver.set_script_timeout(20)
    assert driver.execute_async_script(FIRST_RESULT, word) == page
