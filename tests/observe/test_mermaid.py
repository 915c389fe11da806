"""Mermaid flowcharts, read back with a parser of the part of its grammar that they may use."""

import html
import random
import re
from dataclasses import dataclass, field

import pytest

import npu_tensor as nt
from npu_tensor.observe.drawing import Box, Frame, Picture, mermaid
from npu_tensor.observe.drawing.mermaid import MOST_EDGES, MOST_LETTERS

QUOTED = r'"([^"\n]+)"'
NODE = re.compile(rf"(\w+)(?:\[{QUOTED}\]|\(\[{QUOTED}\]\)):::(\w+)")
SUBGRAPH = re.compile(rf"subgraph (\w+)\[{QUOTED}\]")
EDGE = re.compile(r"(\w+) --> (\w+)")
CLASS_OF = re.compile(r"class (\w+) (\w+)")
CLASS = re.compile(r"classDef (\w+) [-\w]+:[^,;]+(?:,[-\w]+:[^,;]+)*")


@dataclass
class Chart:
    """labels, classes: by name of a node or subgraph. members: of each subgraph. styles: classes that are defined."""

    labels: dict[str, list[str]] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    styles: set[str] = field(default_factory=set)


def lines_of(label: str) -> list[str]:
    """Mermaid takes #NN; for &#NN; and a label for HTML, in which there is nothing but text and line breaks here."""
    parts = label.split("<br/>")
    assert not any(set(part) & set("<>&`") for part in parts)
    assert all(re.fullmatch(r"(?:[^#;]|#\d+;)*", part) for part in parts)
    return [html.unescape(re.sub(r"#(\d+);", r"&#\1;", part)) for part in parts]


def parse(text: str) -> Chart:
    """A chart, or AssertionError with the line that is not in the grammar."""
    first, *lines = text.splitlines()
    assert first == "flowchart TD"
    assert text.endswith("\n")
    chart, inside = Chart(), None
    for line in map(str.strip, lines):
        if result := NODE.fullmatch(line):
            name, square, round_, kind = result.groups()
            assert name not in chart.labels
            chart.labels[name], chart.classes[name] = lines_of(square or round_), kind
            if inside:
                chart.members[inside].append(name)
        elif result := SUBGRAPH.fullmatch(line):
            assert inside is None
            inside, label = result.groups()
            chart.labels[inside], chart.members[inside] = lines_of(label), []
        elif line == "end":
            assert inside is not None
            inside = None
        elif result := EDGE.fullmatch(line):
            assert set(result.groups()) <= set(chart.labels)
            chart.edges.append((result[1], result[2]))
        elif result := CLASS_OF.fullmatch(line):
            chart.classes[result[1]] = result[2]
        elif result := CLASS.fullmatch(line):
            chart.styles.add(result[1])
        else:
            raise AssertionError(line)
    assert inside is None
    assert set(chart.classes.values()) <= chart.styles
    assert set(chart.classes) == set(chart.labels)
    return chart


def test_a_graph_with_its_kernels() -> None:
    x, w = nt.ones(8, 16).realize(), nt.ones(16, 16).realize()
    out = ((x @ w + 1).relu().reshape(2, 4, 16).cumsum(0) * 0.5).exp()
    graph, table = out.graph, nt.explain(out)
    chart = parse(table.mermaid())
    assert sorted(chart.edges) == sorted((f"n{a}", f"n{b}") for a, b in graph.edges)
    assert {f"n{item}" for item in graph} <= set(chart.labels)
    ops = [f"n{item}" for item in sorted(graph) if "call" in graph.nodes[item]]
    kernel_of = {member: name for name, members in chart.members.items() for member in members}
    for number, (name, row) in enumerate(zip(ops, table, strict=True)):
        assert chart.labels[name] == [row.op, row.out]
        assert chart.classes[name] == ("view" if row.kernel == "none" else "cpu")
        last = int(row.kernel.partition("#")[2]) if row.kernel.startswith("fused") and "#" in row.kernel else number
        assert kernel_of.get(name) == (None if row.kernel == "none" else kernel_of[ops[last]])
    assert all(chart.classes[name] == "cpu" for name in chart.members)
    assert len(chart.members) == sum(row.predicted is not None for row in table)
    numbers = [item for item in graph if graph.nodes[item]["op"] == "number"]
    assert sorted(chart.labels[f"n{item}"] for item in numbers) == [["0.5"], ["1"]]
    assert chart.labels["legend0"] == [str(table).splitlines()[-1]]


@pytest.mark.parametrize(
    "text",
    [
        '"];<script>alert(1)</script>',
        "end",
        "subgraph x",
        "`markdown` **bold**",
        "#quot;#35;&amp;&#35;",
        "a-->|b|c{d}",
        "%%{init: {}}%%",
        "line\nfeed\ttab\\n",
        "é \u4e2d \U0001f600",
    ],
)
def test_texts_stay_texts(text: str) -> None:
    boxes = {0: Box("leaf", text), 1: Box("cpu", text, text)}
    chart = parse(mermaid(Picture(boxes, [(0, 1)], [Frame("cpu", text, (1,))], [("cpu", text)], text)))
    assert chart.labels == {
        "n0": [text],
        "n1": [text, text],
        "kernel0": [text],
        "legend0": [text],
        "note": [text],
    }


@pytest.mark.parametrize(("boxes", "fan"), [(300, 2), (2000, 1), (2000, 3), (10000, 2)])
def test_large_graphs_keep_to_the_limits_of_mermaid(boxes: int, fan: int) -> None:
    rng = random.Random(boxes + fan)
    edges = sorted({(rng.randrange(reader), reader) for reader in range(1, boxes) for _ in range(fan)})
    frames = [Frame("npu", "map", (item, item + 1)) for item in range(0, boxes, 2)]
    text = mermaid(Picture({item: Box("npu", f"op{item}", "f32[1, 2]") for item in range(boxes)}, edges, frames))
    chart = parse(text)
    assert len(chart.edges) <= MOST_EDGES
    assert len(text) <= MOST_LETTERS
    assert chart.labels["note"][0].startswith(f"{boxes} ops and values: ")
    assert f"n{boxes - 1}" in chart.labels
