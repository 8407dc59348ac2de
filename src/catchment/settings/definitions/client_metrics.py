"""The settings of subscriptions to clients' metrics (KIP-714), as Kafka 4.3 has them.

Catchment collects no client metrics, so a subscription would have no effect and none is stored.
"""

from __future__ import annotations

from typing import Final

from catchment.settings.setting import Bounds, Definitions, Kind, Setting

CLIENT_METRICS_SETTINGS: Final = Definitions(
    [
        Setting(
            "interval.ms", Kind.INT, 300_000, "How often clients would push their metrics.", Bounds(100, 3_600_000)
        ),
        Setting("match", Kind.LIST, (), "Which clients would push metrics, by patterns of their labels."),
        Setting("metrics", Kind.LIST, (), "Which metrics would be pushed, by prefixes of their names."),
    ]
)
