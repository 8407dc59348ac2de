"""The partitions that a streaming query reads, as they come and go while it runs, and where they end.

It is asked at every trigger, many times a second, so metadata is refreshed only every `kafka.metadata.max.age.ms`; in between, an answer
costs one request to each leader.
"""

from __future__ import annotations

import time
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.client.errors import BrokerError
from catchment.client.offsets import LATEST
from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.noted_offsets import number_of
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.positions import AtOffsets, Offsets

_MISSING: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


class TopicWatch:
    """For the process that plans the batches of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = options.connection.cluster()
        self._places: list[TopicPartition] = []
        self.topics: dict[str, int] = {}
        """Which topics they are, as `number_of` their ids."""
        self._looked_up_at_s = float("-inf")
        self._are_topics_missing = False

    def initial(self) -> Offsets:
        """Where the options say to begin. A topic that does not exist is a mistake here, also where its end was asked for before."""
        self._are_topics_missing = False
        self._look_up()
        return self._options.start.resolve(self._cluster, self._places, self._options.read_committed)

    def latest(self) -> Offsets:
        """Where the partitions end; those of deleted topics are left out."""
        if time.monotonic() - self._looked_up_at_s >= self._options.metadata_age_s:
            self._look_up_again()
        try:
            return self._ends()
        except BrokerError as error:
            if error.code not in _MISSING:
                raise
            self._look_up_again()
            return self._ends()

    def _ends(self) -> Offsets:
        return AtOffsets(LATEST).resolve(self._cluster, self._places, self._options.read_committed)

    def _look_up(self) -> None:
        selection = self._options.selection
        if self._are_topics_missing:
            # To ask for a topic that is missing would wait each time for it to appear.
            selection = selection.among(self._cluster.topics(include_internal=True))
        self._places = selection.places(self._cluster)
        self._are_topics_missing = selection != self._options.selection
        self._looked_up_at_s = time.monotonic()
        found = {topic: self._cluster.topic_id(topic) for topic in {topic for topic, _ in self._places}}
        self.topics |= {topic: number_of(topic_id) for topic, topic_id in found.items() if topic_id is not None}

    def _look_up_again(self) -> None:
        try:
            self._look_up()
        except BrokerError as error:
            if error.code not in _MISSING:
                raise
            self._are_topics_missing = True
            self._look_up()
