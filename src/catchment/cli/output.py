"""What commands print: JSON for scripts, tables and sizes for people. Rich is imported only when a table is drawn."""

import json
import sys
from collections.abc import Iterable, Sequence

import typer

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def print_json(value: object) -> None:
    """One document, indented for a terminal and on one line for a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    typer.echo(json.dumps(value, indent=indent, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on a terminal; tab-separated lines in a pipe, which scripts can split.

    A column whose name ends in a colon holds numbers and is aligned to the right.
    """
    names = [column.removesuffix(":") for column in columns]
    if not sys.stdout.isatty():
        for line in (names, *rows):
            typer.echo("\t".join(str(cell) for cell in line))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column, name in zip(columns, names, strict=True):
        table.add_column(name, justify="right" if column.endswith(":") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)


def print_note(text: str) -> None:
    """A remark on stderr, so that it does not mix with the results."""
    typer.echo(text, err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, and end the command unless the answer is yes. A script is not asked."""
    if not yes and is_answered_by_a_person():
        typer.confirm(question, abort=True, err=True)


def is_answered_by_a_person() -> bool:
    return sys.stdin.isatty()


def format_bytes(size: float) -> str:
    for unit in _BINARY_UNITS:
        if abs(size) < 1024 or unit == _BINARY_UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
