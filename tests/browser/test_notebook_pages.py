"""Notebooks of examples/ as Chromium shows them: every cell has run, and its pictures are seen."""

import json
from pathlib import Path

import pytest
from browser_page import READABLE, Box, Rendered, Show, overlaps
from paths import EXAMPLES

from npu_tensor.runtime.sim import host_compiler

# The two with every kind of picture: graphs and profiles, and timelines. tests/examples runs all of them.
NOTEBOOKS = (EXAMPLES / "02_why_on_the_cpu.ipynb", EXAMPLES / "04_inside_a_kernel.ipynb")

# Without a compiler there is nothing to be simulated, and no picture of it.
PICTURES = {"02": 1, "04": 2 if host_compiler.reason() is None else 0}
"""Minimum number of unfolded pictures, by notebook."""

# The box of every visible drawing, and the boxes of its texts.
DRAWINGS = """
const box = (e) => {
  const r = e.getBoundingClientRect();
  return [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY, e.textContent];
};
return [...document.querySelectorAll(".jp-OutputArea-output svg, .jp-OutputArea-output img")]
  .filter((picture) => picture.checkVisibility())
  .map((picture) => [box(picture), ...[...picture.querySelectorAll("text")].map(box)]);
"""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_every_cell_has_run_and_pictures_are_seen(notebook: Path, rendered: Rendered, show: Show) -> None:
    page = show(rendered(notebook))
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    prompts = [box.text.split() for box in page.boxes(".jp-InputPrompt") if box.text]
    code = sum(cell["cell_type"] == "code" for cell in cells)
    assert prompts == [["In", f"[{number + 1}]:"] for number in range(code)]
    assert page.boxes("[data-mime-type='application/vnd.jupyter.stderr'], [data-mime-type*='error']") == []
    drawings = [[Box(*result) for result in boxes] for boxes in page.run(DRAWINGS)]
    assert len(drawings) >= PICTURES[notebook.stem[:2]]
    for picture, *texts in drawings:
        assert min(picture.width, picture.height) > 30
        assert all(picture.holds(text) for text in texts)
        assert overlaps(texts) == []
    tables = page.boxes(".jp-OutputArea-output table")
    pictures = [picture for picture, *_ in drawings]
    assert overlaps([*tables, *pictures]) == []
    assert [text for ratio, text in page.text_contrasts(".jp-OutputArea-output svg") if ratio < READABLE] == []
