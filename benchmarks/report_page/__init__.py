"""Report page: the results of a session as one HTML page, which needs no network.

    write_report(results, Path("out"))  # writes out/index.html

The page contains plotly.js once, which draws the plots. It forbids the browser to load anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from npu_tensor._util.units import duration

from ..compare import changes, differences, lost, regressions
from ..report import MUCH
from ..results import Row
from . import crossover, decisions, roofline, rows, speedups


def write_report(
    results: Mapping[str, Any], directory: Path, before: Mapping[str, Any] | None = None, threshold: float = 1.25
) -> Path:
    """Write `index.html` into a directory, which is created if necessary. Return its path.

    Results are in the format of schema.json. A row that is more than `threshold` times slower than `before` is a
    regression.
    """
    import jinja2
    import plotly.offline

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = duration
    page = environment.get_template("page.html").render(
        **content(results),
        **comparison(results, before, threshold),
        plotly_js=plotly.offline.get_plotlyjs(),
        plotly_version=version("plotly"),
    )
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "index.html"
    path.write_text(page, "utf-8")
    return path


def content(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template variables of one session."""
    measurements = rows.read(results)
    pairs = rows.pairs(measurements)
    on_roof = roofline.points(measurements)
    sweep = crossover.points(measurements)
    crossings = crossover.crossings(sweep)
    decided = decisions.decisions(measurements)
    return {
        "machine": results["machine"],
        "contenders": results["contenders"],
        "quick": results["quick"],
        "disturbed": (results["machine"]["others"] or 0) > MUCH,
        "left_out": results["left_out"],
        "means": speedups.means(pairs),
        "noisy": f"{rows.NOISY:g}",
        "speedups": {
            suite: speedups.plot([pair for pair in pairs if pair.ours.suite == suite])
            for suite in dict.fromkeys(pair.ours.suite for pair in pairs)
        },
        "roofline": roofline.plot(on_roof, results["ceilings"]) if on_roof else None,
        "roofline_kinds": kinds(on_roof),
        "ceilings": results["ceilings"],
        "crossover": crossover.plot(sweep, crossings) if sweep else None,
        "crossover_kinds": kinds(sweep),
        "crossings": crossings,
        "without_npu": crossover.without_npu(results["left_out"]) if sweep else [],
        "decisions": {name: decisions.plot(part) for name, part in decided.items()},
        "decision_kinds": kinds([row for part in decided.values() for decision in part for row in decision]),
        "measured": [row for row in measurements if row.kind == "measured"],
        "pauses": sorted({row.idle_seconds for row in measurements if row.idle_seconds is not None}),
        "others": [row for row in measurements if row.kind != "measured"],
    }


def comparison(results: Mapping[str, Any], before: Mapping[str, Any] | None, threshold: float) -> dict[str, Any]:
    """Return the template variables that compare two sessions."""
    if before is None:
        return {"before": None}
    figures = list(changes(before, results))
    return {
        "before": before["machine"],
        "threshold": threshold,
        "differences": differences(before, results),
        "compared": len(figures),
        "lost": list(lost(before, results)),
        "regressions": regressions(figures, threshold),
        "improvements": sum(change.ratio < 1 / threshold for change in figures),
    }


def kinds(rows: list[Row]) -> list[str]:
    """Return the distinct kinds of figures in the rows."""
    return list(dict.fromkeys(row.kind for row in rows))
