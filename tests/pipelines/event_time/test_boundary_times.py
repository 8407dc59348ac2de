"""Stages tell the rows of one batch by the time of their records, so the brokers must leave that as it was written."""

from __future__ import annotations

import pytest
from tests.pipelines.event_time.questions import TREND
from tests.pipelines.event_time.town import Town

from catchment.client.errors import SettingsError


def test_a_boundary_whose_records_get_the_brokers_time_is_refused(town: Town) -> None:
    boundary = town.boundary("calls")
    town.make_topic(boundary, 2, {"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(SettingsError, match=f"topic {boundary} has message.timestamp.type=LogAppendTime") as refused:
        town.drain(town.asking([TREND], {"calls": "20 seconds"}))
    assert "Set message.timestamp.type=CreateTime" in str(refused.value)
