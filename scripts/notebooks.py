"""Notebooks of examples/ as pages of the site, with results of a run during the build."""

from __future__ import annotations

import html
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

__all__ = ["page"]

SECONDS = 300
"""Time limit of a cell in seconds. A hanging cell then ends the build."""

HTML = ("image/svg+xml", "text/html")
"""MIME types of results that a page embeds. Other results are shown as text."""


def page(path: Path, run: bool) -> str:
    """Convert a notebook to Markdown, with the results of a run if `run` is set.

    Raises:
        CellExecutionError: A cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    if run:
        _run(notebook)
    title, *parts = (part for cell in notebook.cells for part in _parts(cell))
    note = f"*This is the notebook `examples/{path.name}`.*"
    if run:
        note = (
            f"*This is the notebook `examples/{path.name}`, run when these pages were built. "
            "Measured times are those of the machine that built them.*"
        )
    heading, _, rest = title.partition("\n")
    return "\n\n".join([heading, note, rest, *parts]) + "\n"


def _run(notebook: Any) -> None:
    # Without kernel directories, only the kernel of this interpreter is available.
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    with TemporaryDirectory() as place:
        where = {"metadata": {"path": place}}
        client = NotebookClient(notebook, km=manager, timeout=SECONDS, resources=where, coalesce_streams=True)
        client.execute(cleanup_kc=True)


def _parts(cell: Any) -> list[str]:
    """Return the Markdown of a cell and of its results."""
    if cell.cell_type != "code":
        return [cell.source]
    return [f"```python\n{cell.source}\n```", *map(_shown, cell.outputs)]


def _shown(output: Any) -> str:
    """Return a result as HTML in one line, which Markdown does not change."""
    data = output.get("data", {})
    found = next((data[form] for form in HTML if form in data), None)
    if found is None:
        found = f"<pre><code>{html.escape(output.get('text') or data.get('text/plain', ''))}</code></pre>"
    return f'<div class="result">{found}</div>'.replace("\n", "&#10;")
