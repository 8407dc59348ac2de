"""A Protobuf schema: compiled from .proto text or given compiled, its messages, and the Spark types that they have.

The types are those of Spark's own `from_protobuf`: enums are strings, `Timestamp` is a timestamp, `Duration` an interval,
messages without fields are left out. One differs: unsigned numbers get a type that can hold them, as with Spark's option
`upcast.unsigned.ints`, since otherwise large ones would silently turn negative.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError
from pyspark.sql import types as spark

from catchment.client.errors import SettingsError

_COMPILE_TIMEOUT_SECONDS: Final = 60
_MAIN_FILE: Final = "schema.proto"
_SIMPLE: Final[dict[int, spark.DataType]] = {
    FieldDescriptor.CPPTYPE_INT32: spark.IntegerType(),
    FieldDescriptor.CPPTYPE_UINT32: spark.LongType(),
    FieldDescriptor.CPPTYPE_INT64: spark.LongType(),
    FieldDescriptor.CPPTYPE_UINT64: spark.DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: spark.FloatType(),
    FieldDescriptor.CPPTYPE_DOUBLE: spark.DoubleType(),
    FieldDescriptor.CPPTYPE_BOOL: spark.BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: spark.StringType(),
}
_WELL_KNOWN: Final[dict[str, spark.DataType]] = {
    "google.protobuf.Timestamp": spark.TimestampType(),
    "google.protobuf.Duration": spark.DayTimeIntervalType(),
}


def compiled(text: str, references: Mapping[str, str]) -> str:
    """The base64 of a set of file descriptors, of which the last is the schema's own; `references` are its imports."""
    try:
        content = b64decode("".join(text.split()), validate=True)
        if FileDescriptorSet.FromString(content).file:
            return b64encode(content).decode()
    except (Base64Error, DecodeError, ValueError):
        pass
    if find_spec("grpc_tools") is None:
        raise SettingsError(
            "a Protobuf schema in .proto text needs a compiler, and grpcio-tools is not installed",
            "Run pip install grpcio-tools, or give what protoc --include_imports --descriptor_set_out writes, as a file "
            "or in base64.",
        )
    return _compile(text, references)


def _compile(text: str, references: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory() as directory:
        for name, content in {**references, _MAIN_FILE: text}.items():
            path = Path(directory, name).resolve()
            if not path.is_relative_to(Path(directory).resolve()):
                raise SettingsError(
                    f"the Protobuf schema imports {name!r}, which leads out of its own tree", "Rename it."
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        output = Path(directory, "descriptors.binary")
        done = subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", "-I.", f"--descriptor_set_out={output.name}", _MAIN_FILE],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_SECONDS,
            check=False,
        )  # fmt: skip
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if ".proto:" in line), done.stderr.strip())
            raise SettingsError(f"the Protobuf schema does not compile: {reason}", "Correct it.")
        return b64encode(output.read_bytes()).decode()


@lru_cache(maxsize=256)
def _pool(descriptors: str) -> tuple[Any, str]:
    """The messages of a compiled schema, and the name of its own file, which comes after what it imports."""
    files = FileDescriptorSet.FromString(b64decode(descriptors)).file
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
    except TypeError as error:
        raise SettingsError(
            f"the compiled Protobuf schema is not complete: {error}", "Compile it with protoc --include_imports."
        ) from None
    return pool, files[-1].name


def message_name(descriptors: str, name: str | None) -> str:
    """The full name of the message that a column holds: the one that is named, else the first of the schema's file."""
    pool, own_file = _pool(descriptors)
    messages = pool.FindFileByName(own_file).message_types_by_name
    found = {message.full_name for message in messages.values()}
    if name is None:
        if not messages:
            raise SettingsError("the Protobuf schema has no message", "Give one that has.")
        return str(next(iter(messages.values())).full_name)
    if name in messages:
        return str(messages[name].full_name)
    try:
        return str(pool.FindMessageTypeByName(name).full_name)
    except KeyError:
        raise SettingsError(
            f"the Protobuf schema has no message {name}", f"It has {', '.join(sorted(found)) or 'none'}."
        ) from None


def message_at(descriptors: str, path: tuple[int, ...]) -> str | None:
    """The full name of the message at a path of indices in the schema's file, as records name it; None if there is none."""
    pool, own_file = _pool(descriptors)
    file = FileDescriptorProto()
    pool.FindFileByName(own_file).CopyToProto(file)
    messages, names = file.message_type, [file.package] if file.package else []
    for index in path:
        if not 0 <= index < len(messages):
            return None
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


@lru_cache(maxsize=256)
def message_class(descriptors: str, name: str) -> Any:
    """The class of a message, made in each process."""
    return message_factory.GetMessageClass(_pool(descriptors)[0].FindMessageTypeByName(name))


@lru_cache(maxsize=256)
def message_type(descriptors: str, name: str) -> spark.StructType:
    """The type of a message."""
    descriptor = message_class(descriptors, name).DESCRIPTOR
    data_type = _struct(descriptor, ())
    if data_type is None:
        raise SettingsError(f"the Protobuf message {name} has no fields, and Spark has no such struct", "Add one.")
    return data_type


def _struct(descriptor: Descriptor, above: tuple[str, ...]) -> spark.StructType | None:
    if descriptor.full_name in above:
        raise SettingsError(
            f"the Protobuf message {descriptor.full_name} contains itself, and a column has no type that does",
            "Read the column as bytes, without a format, and decode it in a function of your own.",
        )
    fields = []
    for field in descriptor.fields:
        data_type = field_type(field, (*above, descriptor.full_name))
        if data_type is not None:
            fields.append(spark.StructField(field.name, data_type))
    return spark.StructType(fields) if fields else None


def field_type(field: FieldDescriptor, above: tuple[str, ...]) -> spark.DataType | None:
    """The type of a field; None for a message without fields, which is left out."""
    if is_map(field):
        entry = field.message_type.fields_by_name
        value = field_type(entry["value"], above)
        key = field_type(entry["key"], above)
        return spark.MapType(key, value) if key is not None and value is not None else None
    item = _item_type(field, above)
    return spark.ArrayType(item) if item is not None and field.is_repeated else item


def _item_type(field: FieldDescriptor, above: tuple[str, ...]) -> spark.DataType | None:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _WELL_KNOWN.get(field.message_type.full_name) or _struct(field.message_type, above)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return spark.BinaryType() if field.type == FieldDescriptor.TYPE_BYTES else spark.StringType()
    return _SIMPLE[field.cpp_type]


def is_map(field: FieldDescriptor) -> bool:
    """Whether a repeated field is a map: on the wire the two are the same."""
    message = field.message_type
    return message is not None and message.GetOptions().map_entry
