"""Which partitions a query reads: topics by name, topics by a pattern, or partitions one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, SettingsError
from catchment.client.topic_metadata import TopicPartition

_WAYS: Final = ("subscribe", "subscribePattern", "assign")
_CHOOSE: Final = (
    'Give one of subscribe ("orders,payments"), subscribePattern ("orders-.*") and assign (\'{"orders": [0, 1]}\').'
)


@dataclass(frozen=True)
class TopicSelection:
    """Exactly one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    @classmethod
    def read(cls, options: Mapping[str, str]) -> TopicSelection:
        """From the options, whose names are in lower case."""
        given = [way for way in _WAYS if way.lower() in options]
        if len(given) != 1:
            told = f"only one of the options {' and '.join(given)} can be given" if given else "no topic is named"
            raise SettingsError(told, _CHOOSE)
        text = options[given[0].lower()].strip()
        if given[0] == "assign":
            return cls(assigned=_read_assigned(text))
        if not text.strip(", "):
            raise SettingsError(f"the option {given[0]} is empty", _CHOOSE)
        if given[0] == "subscribePattern":
            return cls(pattern=_check_pattern(text))
        return cls(topics=tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip())))

    def topic_names(self, cluster: Cluster) -> list[str]:
        """The topics as they are now; asks the cluster only if there is a pattern."""
        if self.pattern is not None:
            return cluster.topics(self.pattern)
        return sorted(set(self.topics) | {topic for topic, _ in self.assigned})

    def among(self, existing: Collection[str]) -> TopicSelection:
        """The same without topics that do not exist; a pattern finds none of them anyway."""
        return replace(
            self,
            topics=tuple(topic for topic in self.topics if topic in existing),
            assigned=tuple(place for place in self.assigned if place[0] in existing),
        )

    def places(self, cluster: Cluster) -> list[TopicPartition]:
        """The partitions as they are now, new ones included. A topic that is missing is an error, unless found by pattern."""
        names = self.topic_names(cluster)
        if names:
            cluster.refresh(names)
        existing = {(topic, partition) for topic in names for partition in cluster.partitions(topic)}
        for topic, partition in self.assigned:
            if (topic, partition) not in existing:
                raise BrokerError(
                    ErrorCode.unknown_topic_or_partition,
                    f"topic {topic} has no partition {partition}, which the option assign names",
                    "Partitions are counted from 0.",
                )
        return sorted(self.assigned or existing)


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise SettingsError(f"the option subscribePattern is no regular expression: {error}", _CHOOSE) from None
    return text


def _read_assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        places = {(topic, int(partition)) for topic, numbers in json.loads(text).items() for partition in numbers}
    except (ValueError, TypeError, AttributeError):
        places = set()
    if not places or any(partition < 0 for _, partition in places):
        raise SettingsError(f"the option assign cannot be {text!r}", 'Write it as {"orders": [0, 1], "payments": [0]}.')
    return tuple(sorted(places))
