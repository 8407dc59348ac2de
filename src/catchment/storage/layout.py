"""The names of the files in a log directory, as in Kafka."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from uuid import UUID

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
NOT_CHECKPOINTED = "catchment-unnoted"
"""In a log's directory: the checkpoints under its name belong to a deleted log of the same name."""

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""A directory that Apache Kafka wrote may also hold KRaft's own log; it is not a topic of ours."""

_LONGEST_NAME = 255
_FILE_NAME = re.compile(r"(\d{20})(\.[a-z]+)(\.deleted|\.cleaned|\.swap)?")
_DELETED_DIRECTORY = re.compile(r".+-\d+\.[0-9a-f]{32}-delete")
_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")


class LogFileName(NamedTuple):
    offset: int
    suffix: str
    state: str
    """One of `.deleted`, `.cleaned`, `.swap`, or nothing for a file in use."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> LogFileName | None:
    match = _FILE_NAME.fullmatch(name)
    return LogFileName(int(match[1]), match[2], match[3] or "") if match else None


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """Topic and partition, or None for anything that is not the directory of a live partition."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or is_deleted_directory(name) or match[1] == CLUSTER_METADATA_TOPIC:
        return None
    return match[1], int(match[2])


def deleted_directory(topic: str, partition: int, unique_id: UUID) -> str:
    """The name of a deleted partition until its removal; long topic names are cut, as file names end at 255 bytes."""
    ending = f"-{partition}.{unique_id.hex}-delete"
    return topic[: _LONGEST_NAME - len(ending)] + ending


def is_deleted_directory(name: str) -> bool:
    return _DELETED_DIRECTORY.fullmatch(name) is not None


def format_uuid(value: UUID) -> str:
    """Kafka writes a UUID as URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def format_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def parse_partition_metadata(data: bytes) -> UUID:
    for line in data.decode().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            return parse_uuid(value.strip())
    raise ValueError("partition.metadata names no topic_id")
