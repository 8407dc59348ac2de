"""Kafka's small text files: offsets by partition, properties, and the clean-shutdown marker.

A checkpoint is a version line, a count line, and as many entries. One that does not parse counts as missing: every value in
these files is a bound that recovery can do without, at the cost of reading more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from catchment.ports.disk import Disk


def read_lines(disk: Disk, path: str) -> list[str]:
    """The entries of a version-0 checkpoint; none if it is missing or torn."""
    try:
        lines = disk.read_file(path).decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (FileNotFoundError, UnicodeDecodeError, ValueError, IndexError):
        return []
    entries = lines[2:]
    return entries if version == 0 and len(entries) == count else []


def encode_lines(entries: list[str]) -> bytes:
    """A version-0 checkpoint with these entries."""
    return ("\n".join(["0", str(len(entries)), *entries]) + "\n").encode()


def read_offsets(disk: Disk, path: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition."""
    offsets: dict[tuple[str, int], int] = {}
    for line in read_lines(disk, path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            return {}
    return offsets


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    return encode_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read_properties(disk: Disk, path: str) -> dict[str, str] | None:
    """A Java properties file in its plain form, or None if there is none."""
    try:
        text = disk.read_file(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    properties: dict[str, str] = {}
    for line in text.splitlines():
        if line and not line.startswith(("#", "!")):
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties


def write_properties(disk: Disk, path: str, properties: Mapping[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    disk.replace_file(path, text.encode())


def write_clean_shutdown(disk: Disk, path: str, broker_epoch: int) -> None:
    disk.replace_file(path, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """The broker epoch of the last clean stop, -1 if the file does not have it, None if the stop was not clean."""
    try:
        content = json.loads(disk.read_file(path) or b"{}")
        return int(content.get("brokerEpoch", -1))
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, TypeError):
        return -1
