"""Records of one Avro schema written again as records of another, by Avro's rules, which fastavro knows.

It reads plain numbers and bytes, not times and decimals, and writes them as they are. What has a place in more than one branch
of a union is marked with the branch that holds it exactly: a double would else be written as a float, a text as a symbol.
"""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro

from catchment.spark.formats.avro.schema import load

_INTERCHANGED: Final = (frozenset(("int", "long", "float", "double")), frozenset(("bytes", "string")))
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_CONTAINERS: Final[dict[type, str]] = {list: "array", dict: "map"}
_EXACT: Final[dict[type, str]] = {float: "double", str: "string"}


class Resolver:
    """From a writer's schema to a reader's. Each is a text, followed by those of the schemas that it refers to."""

    def __init__(self, writer: tuple[str, ...], reader: tuple[str, ...]) -> None:
        self._writer, _ = _plain_schema(writer)
        self._reader, self._names = _plain_schema(reader)
        self.is_sure = not any(map(_is_ambiguous, (self._reader, *self._names.values())))
        """Whether a value has only one branch to go to: fastavro takes the first that can hold it, not the one of its type."""

    def rewrite(self, payload: bytes) -> bytes:
        """A sound record. Raises whatever fastavro does if it does not fit."""
        value = fastavro.schemaless_reader(io.BytesIO(payload), self._writer, self._reader, return_named_type=True)
        output = io.BytesIO()
        fastavro.schemaless_writer(output, self._reader, self._marked(value, self._reader))
        return output.getvalue()

    def _marked(self, value: Any, schema: Any) -> Any:
        schema = self._names.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(schema, list):
            return self._marked_in_union(value, schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "record":
            return {field["name"]: self._marked(value[field["name"]], field["type"]) for field in schema["fields"]}
        if kind == "array":
            return [self._marked(item, schema["items"]) for item in value]
        if kind in ("bytes", "fixed") and isinstance(value, str):
            # A default for bytes is text in the schema, a letter for each byte, and fastavro leaves it so.
            return value.encode("latin-1")
        if kind == "map":
            return {key: self._marked(item, schema["values"]) for key, item in value.items()}
        return value

    def _marked_in_union(self, value: Any, branches: list[Any]) -> Any:
        if isinstance(value, tuple):
            name, inner = value
            return name, self._marked(inner, name)
        if _EXACT.get(type(value)) in branches:
            return _EXACT[type(value)], value
        if isinstance(value, str) and "bytes" in branches:
            return self._marked(value, "bytes")
        container = _CONTAINERS.get(type(value))
        for branch in branches:
            if container is not None and isinstance(branch, dict) and branch["type"] == container:
                return self._marked(value, branch)
        return value


def _plain_schema(texts: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    names: dict[str, Any] = {}
    for reference in texts[1:]:
        fastavro.parse_schema(_plain(json.loads(reference)), names)
    return fastavro.parse_schema(_plain(load(texts[0])), names), names


def _is_ambiguous(schema: Any) -> bool:
    if isinstance(schema, list):
        kinds = frozenset(branch for branch in schema if isinstance(branch, str))
        return any(len(kinds & group) > 1 for group in _INTERCHANGED) or any(map(_is_ambiguous, schema))
    if not isinstance(schema, dict):
        return False
    children = [schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", ()))]
    return any(map(_is_ambiguous, children))


def _plain(schema: Any) -> Any:
    """A schema without logical types and without properties of primitive ones."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" not in schema and schema.get("type") in _PRIMITIVES:
        return schema["type"]
    kept = {name: item for name, item in schema.items() if name != "logicalType"}
    return {name: item if name == "default" else _plain(item) for name, item in kept.items()}
