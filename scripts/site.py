"""Hook of mkdocs that adds CONTRIBUTING.md, the notebooks and the reference as pages, and adapts links.

The site has only pages, so links to source files become plain text.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

import notebooks
import reference
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>(?!https?://|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
CONTRIBUTING = "docs/contributing.md"

notebook_page = cache(notebooks.page)  # `mkdocs serve` rebuilds the site often


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    page = LINK.sub(lambda link: f"[{link['text']}](../{link['target']}{link['anchor'] or ''})", text)
    files.append(File.generated(config, "contributing.md", content=page))
    for name, generated in reference.PAGES.items():
        files.append(File.generated(config, name, content=generated()))
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        content = notebook_page(path, config.extra["run_notebooks"])
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Adapt the links of a page and insert its tables."""
    here = f"docs/{page.file.src_uri}"

    def mended(link: re.Match[str]) -> str:
        target = normpath(f"{here}/../{link['target']}")
        if target == "CONTRIBUTING.md":
            target = CONTRIBUTING
        if target.startswith("examples/") and target.endswith(".ipynb"):
            target = f"docs/notebooks/{Path(target).stem}.md"
        if not target.startswith("docs/") or files.get_file_from_path(target.removeprefix("docs/")) is None:
            return link["text"]
        return f"[{link['text']}]({relpath(target, f'{here}/..')}{link['anchor'] or ''})"

    return LINK.sub(mended, reference.with_tables(markdown))
