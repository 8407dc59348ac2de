"""Parse a file in the format of Java's properties, such as Kafka's server.properties.

Python's configparser reads neither this format's escapes nor its continued lines.

`name=value`, `name: value` or `name value`; lines that start with # or ! are comments; a backslash at the end of a line
joins the next one to it; `\\t`, `\\n`, `\\uXXXX` and other escapes as in Java. The last of two equal names wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from catchment.settings.setting import InvalidSetting

_PARTS: Final = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a file; OSError if it cannot be read, InvalidSetting if it is no text."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidSetting("--config", path, "The file is not UTF-8 text; is it a properties file?") from error


def parse_properties(text: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        parts = _PARTS.fullmatch(line)
        if parts is not None:
            properties[_unescaped(parts["name"])] = _unescaped(parts["value"]).strip()
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in text.splitlines():
        content = line.lstrip(" \t\f")
        if not joined and (not content or content[0] in "#!"):
            continue
        # An even number of backslashes at the end is so many escaped ones, and no continuation.
        if (len(content) - len(content.rstrip("\\"))) % 2:
            joined += content[:-1]
            continue
        yield joined + content
        joined = ""
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _CONTROL.get(escape, escape)

    return _ESCAPE.sub(character, text)
