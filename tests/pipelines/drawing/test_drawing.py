"""Pictures of pipelines: everything is in them once, nothing stands upon another, and no password shows."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.emergency import YAML, write_emergency

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.drawing.picture import Node, Picture, length, picture
from catchment.pipelines.drawing.svg import layout, svg
from catchment.pipelines.drawing.terminal import drawn
from catchment.pipelines.graph import Graph

_SVG = "{http://www.w3.org/2000/svg}"


def _picture(folder: Path, text: str = YAML) -> Picture:
    return picture(Graph(load(write_emergency(folder, text=text)).specification))


@st.composite
def _pictures(draw: st.DrawFn) -> Picture:
    """Any graph without circles."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 12)))]
    edges = [
        (start, end)
        for place, end in enumerate(names)
        for start in draw(st.lists(st.sampled_from(names[:place]), max_size=3, unique=True) if place else st.just([]))
    ]
    return Picture({name: Node(name, "processing-stage", name) for name in names}, tuple(edges))


def test_a_terminal_shows_what_flows_where(tmp_path: Path) -> None:
    assert drawn(_picture(tmp_path), {"clean": "reuse"}) == [
        "≡ reports  json",
        "└─ ⬡ clean  once by id · 2 checks · 20 s late  → reports.clean  [reuse]",
        "   ├─ ▢ board  SQL · update by district, start  + ▤ crews",
        "   │  ├─ ⛁ board  sqlite:///city.db",
        "   │  └─ ! burst  count > 40 AND crew < 3  → dispatch, webhook",
        "   └─ ≈ lake/reports  delta  date(at)",
    ]


def test_what_flows_together_is_drawn_once(tmp_path: Path) -> None:
    more = "  both: {sql: SELECT * FROM clean JOIN reports}\nsinks:\n  - {from: both, topic: joined}"
    lines = drawn(_picture(tmp_path, YAML.replace("sinks:", more)))
    assert sum("▢ both" in line and "(above)" not in line for line in lines) == 1
    assert any(line.endswith("▢ both (above)") for line in lines)


@pytest.mark.parametrize(
    ("written", "address", "title"),
    [
        ("sqlite:///city.db", "postgresql://me:secret@host/city", "postgresql://host/city"),
        ("sqlite:///city.db", "postgresql://host/city?password=secret", "postgresql://host/city"),
        ("sqlite:///city.db", "redis://u:sec/ret@host", "redis://host"),
        ("sqlite:///city.db", "redis://u:sec@ret@host", "redis://host"),
        ("lake: lake/reports", "lake: s3://id:secret@bucket/reports", "s3://bucket/reports"),
        ("lake: lake/reports", "lake: s3://id:secret@bucket", "s3://bucket"),
        ("lake: lake/reports", 'lake: "s3://bucket?secret_key=secret"', "s3://bucket"),
    ],
)
def test_no_password_shows(tmp_path: Path, written: str, address: str, title: str) -> None:
    shown = _picture(tmp_path, YAML.replace(written, address))
    lines = drawn(shown)
    assert any(title in line for line in lines)
    assert not re.search("sec|ret", svg(shown, "city") + "\n".join([*lines, *shown.nodes]))


def test_svg_is_xml_with_a_shape_for_every_node_and_a_line_for_every_edge(tmp_path: Path) -> None:
    shown = _picture(tmp_path)
    root = ElementTree.fromstring(svg(shown, "a < b"))
    paths = root.iter(f"{_SVG}path")
    classes = [str(path.get("class")) for path in paths]
    assert sorted(one for one in classes if one.startswith("shape")) == sorted(
        f"shape {node.kind}" for node in shown.nodes.values()
    )
    assert classes.count("line") == len(shown.edges)
    texts = [str(text.text) for text in root.iter(f"{_SVG}text")]
    assert "count > 40 AND crew < 3" in texts


@given(_pictures())
def test_every_node_stands_behind_what_flows_into_it_and_upon_no_other(shown: Picture) -> None:
    places = layout(shown)
    spots = [(number, places.rows[name]) for number, names in enumerate(places.layers) for name in names]
    assert len(spots) == len(set(spots)), "lines that pass a layer have places of their own as well"
    assert all(places.layer(start) < places.layer(end) for start, end in shown.edges)
    for line in places.lines.values():
        assert [places.layer(place) for place in line] == list(
            range(places.layer(line[0]), places.layer(line[-1]) + 1)
        ), "a line goes from layer to layer"
    assert layout(shown) == places
    ElementTree.fromstring(svg(shown, "any"))


@given(st.integers(0, 10**10))
def test_lengths_of_time_lose_nothing(length_ms: int) -> None:
    from catchment.pipelines.declaration.durations import milliseconds

    assert milliseconds(length(length_ms)) == length_ms
