"""Write the pages that are rendered from the code: `make docs`. A test fails when they are out of date."""

import ast
import html
import re
import sys
from pathlib import Path

from catchment.applications.catalogue import TITLES, pipeline_file
from catchment.broker.handlers import CLAIMS
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.drawing.picture import Node, picture
from catchment.pipelines.graph import Graph
from catchment.protocol.apis import APIS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "catchment"


def file_map() -> str:
    """Every module with the first line of its docstring, package by package."""
    lines = [
        "# File map",
        "",
        "Every module with the first line of its docstring, package by package. [The architecture](architecture.md) has the packages",
        "and how they work together. Made by `make docs`.",
        "",
    ]
    for package in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        modules = [path for path in sorted(package.glob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
        if not modules:
            continue
        lines += [f"## `{package.relative_to(SOURCE.parent)}`", "", "| file | |", "|---|---|"]
        lines += [f"| `{path.name}` | {first_line(path)} |" for path in modules]
        lines.append("")
    return "\n".join(lines)


def first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return docstring.split("\n\n")[0].replace("\n", " ").strip()


def apis() -> str:
    """The APIs as their handlers claim and describe them."""
    lines = [
        "# APIs",
        "",
        "What each handler claims, in its own words. ApiVersions answers with the same claims. Made by `make docs`.",
        "",
    ]
    for key, claim in CLAIMS.items():
        docstring = ast.get_docstring(ast.parse((SOURCE / "broker" / "handlers" / f"{claim.module}.py").read_text()))
        title = f"## {APIS[key].name} (key {key}), versions {claim.oldest}–{claim.newest}"
        lines += [title, "", _prose(docstring or ""), ""]
    return "\n".join(lines)


def _prose(docstring: str) -> str:
    """A handler's docstring as Markdown: its sections become bold words."""
    title, _, rest = docstring.strip().partition("\n\n")
    text = re.sub(r"^(Behaviour|Versions|Gaps)\n", r"\n**\1.**\n", rest, flags=re.MULTILINE)
    lines = [line.strip() for line in text.strip().splitlines()]
    return f"{title.partition(': ')[2].capitalize()}\n\n" + "\n".join(lines)


def example_graphs() -> str:
    """The pipelines of the examples as diagrams."""
    lines = [
        "# Graphs of the examples",
        "",
        "The pipelines of [the examples](examples.md), as `catchment pipeline graph` draws them: topics and tables, source stages,",
        "processing stages, stores, lakes and alerts, and what flows where. Made by `make docs`.",
        "",
    ]
    for name, title in TITLES.items():
        lines += [f"## {name}", "", f"{title[0].upper()}{title[1:]}.", "", "```mermaid"]
        lines += [*diagram(pipeline_file(name)), "```", ""]
    return "\n".join(lines)


def diagram(file: Path) -> list[str]:
    """The graph of a pipeline in Mermaid's notation."""
    shown = picture(Graph(load(file).specification))
    numbers = {name: f"n{number}" for number, name in enumerate(shown.nodes)}
    nodes = [f"  {numbers[name]}{_shape(node)}" for name, node in shown.nodes.items()]
    return ["graph LR", *nodes, *[f"  {numbers[start]} --> {numbers[end]}" for start, end in shown.edges]]


def _shape(node: Node) -> str:
    """What is kept is a cylinder, what decides a hexagon, what computes a box."""
    label = "<br>".join(html.escape(text).replace("&quot;", "#quot;") for text in (node.title, *node.details) if text)
    match node.kind:
        case "topic" | "table" | "store" | "lake":
            return f'[("{node.kind} {label}")]'
        case "alert":
            return f'{{{{"alert {label}"}}}}'
        case _:
            return f'["{label}"]'


def pages() -> dict[Path, str]:
    rendered = {
        ROOT / "docs" / "file-map.md": file_map(),
        ROOT / "docs" / "guide" / "example-graphs.md": example_graphs(),
        ROOT / "docs" / "reference" / "apis.md": apis(),
    }
    return {path: text.rstrip() + "\n" for path, text in rendered.items()}


def main() -> int:
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
