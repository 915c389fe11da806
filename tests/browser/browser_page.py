"""A page in headless Chromium and what of it a test can measure: boxes, colours, text, requests, complaints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

__all__ = ["READABLE", "VISIBLE", "Box", "Page", "Rendered", "Show", "overlaps"]

READABLE, VISIBLE = 4.5, 3.0
"""The contrasts that the Web Content Accessibility Guidelines 2.2 ask for, level AA: of text (1.4.3) and of graphics
(1.4.11)."""

# Every text that is painted: text of SVG, and text nodes of HTML with the box of their glyphs.
TEXTS = """\
const found = [];
for (const root of document.querySelectorAll(arguments[0])) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || element.closest("title, desc, script, style")) continue;
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    found.push([range.getBoundingClientRect(), node.textContent.trim(), element]);
  }
}
"""

RECTANGLE = """
const rectangle = (r, text) => [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY, text];
"""

# The ratio of the Web Content Accessibility Guidelines 2.2, "contrast ratio" and "relative luminance", between a colour
# and the background at the middle of the element: in a drawing the last filled rectangle before it, else the first
# background of its ancestors, else the canvas of the colour scheme.
CONTRASTS = """
const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d");
const rgba = (colour) => {
  context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
};
const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
  const v = c[i] / 255;
  return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
}, 0);
const ratio = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
};
const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
const background = (element) => {
  const {left, right, top, bottom} = element.getBoundingClientRect(), x = (left + right) / 2, y = (top + bottom) / 2;
  let behind = null;
  for (const rect of element.ownerSVGElement?.querySelectorAll("rect") ?? []) {
    if (rect === element || !(rect.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
    const r = rect.getBoundingClientRect(), style = getComputedStyle(rect);
    const filled = style.fill !== "none" && rgba(style.fill)[3] * style.fillOpacity * style.opacity === 255;
    if (filled && r.left <= x && x <= r.right && r.top <= y && y <= r.bottom) behind = rgba(style.fill);
  }
  if (behind) return behind;
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  const canvas = dark && getComputedStyle(document.documentElement).colorScheme.includes("dark") ? 18 : 255;
  return [canvas, canvas, canvas];
};
"""


class Box(NamedTuple):
    """Edges in CSS pixels from the top left corner of the document, and the text if there is some."""

    left: float
    top: float
    right: float
    bottom: float
    text: str = ""

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def holds(self, other: Box) -> bool:
        """Return True if `other` lies inside, or at most one pixel outside."""
        return (
            self.left - 1 <= other.left
            and self.top - 1 <= other.top
            and other.right <= self.right + 1
            and other.bottom <= self.bottom + 1
        )


def overlaps(boxes: Sequence[Box]) -> list[tuple[Box, Box]]:
    """Pairs that cover each other by more than one pixel in both directions."""
    return [
        (a, b)
        for a, b in combinations(boxes, 2)
        if min(a.right, b.right) - max(a.left, b.left) > 1 and min(a.bottom, b.bottom) - max(a.top, b.top) > 1
    ]


class Page:
    """Page of a file in Chromium."""

    def __init__(self, driver: Chrome) -> None:
        self._driver = driver
        self._url = "about:blank"

    def reuse(self, path: Path) -> None:
        """Open the file unless the browser shows it already. The window is in the state of `open`.

        The pointer rests in its corner.
        """
        if self._driver.current_url != path.resolve().as_uri():
            self.open(path)
        self.point(Box(0, 0, 0, 0))
        self.look()

    def open(self, path: Path) -> None:
        """Load the file in a window as wide as that of a small laptop."""
        self._url = path.resolve().as_uri()
        self._driver.get("about:blank")
        self.problems()  # forget those of the page before
        self.look()
        self._driver.get(self._url)
        # Plots are drawn, and drawn again in the size of their place, in callbacks.
        self._driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)));"
        )

    def look(
        self,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        media: Literal["screen", "print"] = "screen",
    ) -> None:
        """Change the size of the window in CSS pixels, the colour scheme, and the medium (screen or print)."""
        self._driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self._driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        self._driver.execute_async_script("setTimeout(arguments[0], 150)")  # plots resize with a delay

    def run(self, script: str, *arguments: object) -> Any:
        """Return the result of a JavaScript function body."""
        return self._driver.execute_script(script, *arguments)

    @property
    def width(self) -> float:
        """Width of the window, without a scroll bar."""
        return float(self.run("return document.documentElement.clientWidth"))

    @property
    def text(self) -> str:
        """Everything that can be read without a pointer."""
        return str(self.run("return document.body.innerText"))

    def boxes(self, selector: str) -> list[Box]:
        """The boxes of all elements that a CSS selector finds, with their text."""
        script = RECTANGLE + (
            "return [...document.querySelectorAll(arguments[0])]"
            ".map(e => rectangle(e.getBoundingClientRect(), e.textContent.trim()));"
        )
        return [Box(*result) for result in self.run(script, selector)]

    def texts(self, selector: str = "body") -> list[Box]:
        """The boxes of all visible pieces of text inside what `selector` finds."""
        script = RECTANGLE + TEXTS + "return found.map(([r, text]) => rectangle(r, text));"
        return [Box(*result) for result in self.run(script, selector)]

    def attributes(self, selector: str, name: str) -> list[str | None]:
        """An attribute of all elements that a CSS selector finds."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute(arguments[1]));"
        return list(self.run(script, selector, name))

    def styles(self, selector: str, name: str) -> list[str]:
        """A computed style property, as in "fill", of all elements that a CSS selector finds."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e)[arguments[1]]);"
        return list(self.run(script, selector, name))

    def text_contrasts(self, selector: str = "body") -> Iterator[tuple[float, str]]:
        """Yield the contrast ratio of every visible text against its background, with the text."""
        script = (
            TEXTS
            + CONTRASTS
            + (
                "const colour = (e) => rgba(getComputedStyle(e)[e.namespaceURI.includes('svg') ? 'fill' : 'color']);"
                "return found.map(([r, text, e]) => [ratio(colour(e), background(e)), text]);"
            )
        )
        return ((float(value), text) for value, text in self.run(script, selector))

    def contrasts(self, selector: str, style: str) -> list[float]:
        """Return contrast ratios of a style, such as "fill", against the background, for all elements of a selector."""
        script = CONTRASTS + (
            "return [...document.querySelectorAll(arguments[0])]"
            ".map(e => ratio(rgba(getComputedStyle(e)[arguments[1]]), background(e)));"
        )
        return [float(value) for value in self.run(script, selector, style)]

    def point(self, place: Box) -> None:
        """Move the pointer to the middle of a box."""
        x, y = (place.left + place.right) / 2, (place.top + place.bottom) / 2
        self.run("scrollTo(0, arguments[0] - innerHeight / 2)", y)
        left, top = self.run("return [scrollX, scrollY]")
        event = {"type": "mouseMoved", "x": x - left, "y": y - top}
        self._driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
        self._driver.execute_async_script("setTimeout(arguments[0], 100)")

    def problems(self) -> list[str]:
        """Return console errors, and requests outside the page, since the last call."""
        errors = [entry["message"] for entry in self._log("browser") if entry["level"] == "SEVERE"]
        requests = []
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                parameters = message["params"]
                requests.append(parameters["request"]["url"] if "request" in parameters else parameters["url"])
        inside = ("about:blank", "data:", "blob:", "chrome:", "chrome-untrusted:")
        outside = [url for url in requests if url.partition("#")[0] != self._url and not url.startswith(inside)]
        return errors + [f"requests {url[:200]}" for url in outside]

    def _log(self, name: str) -> list[dict[str, Any]]:
        """The entries since the last call."""
        return list(self._driver.get_log(name))  # type: ignore[no-untyped-call]


Show = Callable[[Path | str], Page]
"""The fixture `show`: opens a file, or a fragment of HTML or SVG."""

Rendered = Callable[[Path], Path]
"""The fixture `rendered`: executes a notebook and gives the path of its HTML page."""
