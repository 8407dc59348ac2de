"""The internal topics of the coordinators can be created with any settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catchment.broker.coordinators.internal_topics import offsets_topic, share_state_topic, transactions_topic
from catchment.cluster.metadata import MetadataImage
from catchment.cluster.new_topic import NewTopic
from catchment.settings.broker import BrokerSettings
from catchment.settings.definitions.topics import TOPIC_SETTINGS


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (offsets_topic, "offsets.topic.segment.bytes"),
        (transactions_topic, "transaction.state.log.segment.bytes"),
        (share_state_topic, "share.coordinator.state.topic.segment.bytes"),
    ],
)
@pytest.mark.parametrize(("asked_bytes", "made_bytes"), [(1, 1 << 20), (1 << 20, 1 << 20), (1 << 21, 1 << 21)])
def test_the_segment_size_is_that_of_the_setting_but_at_least_the_minimum_of_a_topic(
    make: Callable[[BrokerSettings, MetadataImage], NewTopic], name: str, asked_bytes: int, made_bytes: int
) -> None:
    topic = make(BrokerSettings({name: str(asked_bytes)}), MetadataImage())
    assert TOPIC_SETTINGS["segment.bytes"].parse(topic.settings["segment.bytes"]) == made_bytes
