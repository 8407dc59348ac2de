"""The settings of one log: Kafka's topic settings, typed and with their units in their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_DAY_MS = 24 * 60 * 60 * 1000
_NEVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12
    min_insync_replicas: int = 1
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _NEVER
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    retention_messages: int = -1
    retention_consumed_by: tuple[str, ...] = ()
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _NEVER
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60 * 1000
    flush_messages: int = _NEVER
    flush_ms: int = _NEVER
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_zstd_level: int = 3
    sync_acks: bool = True
    producer_id_expiration_ms: int = _DAY_MS

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes old segments by time, size and count."""
        return "delete" in self.cleanup_policy

    @property
    def longest_segment_ms(self) -> int:
        """Records must leave the active segment before `max.compaction.lag.ms`, since it is never compacted."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def from_settings(cls, values: Mapping[str, object]) -> LogConfig:
        """From effective settings by their Kafka names; those that a log does not have are ignored."""
        chosen: dict[str, Any] = {}
        for field in fields(cls):
            name = _SETTING_NAMES.get(field.name, field.name.replace("_", "."))
            if values.get(name) is not None:
                chosen[field.name] = values[name]
        if "cleanup_policy" in chosen:
            chosen["cleanup_policy"] = _policies(chosen["cleanup_policy"])
        return cls(**chosen)


_SETTING_NAMES = {
    "retention_consumed_by": "catchment.retention.consumed.by",
    "retention_messages": "catchment.retention.messages",
    "sync_acks": "catchment.sync.acks",
}


def _policies(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset(str(part) for part in value)
    raise TypeError(f"cleanup.policy is a list of policies, not {value!r}")
