"""The settings by which the rates of clients with a quota are measured."""

from __future__ import annotations

from typing import Final

from catchment.ports.settings import Bounds, Kind, Setting

QUOTA_SETTINGS: Final = [
    Setting(
        "controller.quota.window.num",
        Kind.INT,
        11,
        "How many samples' worth of its `controller_mutation_rate` a client may use at once.",
        Bounds(1),
    ),
    Setting(
        "controller.quota.window.size.seconds",
        Kind.INT,
        1,
        "How many seconds of its `controller_mutation_rate` a sample is worth.",
        Bounds(1),
    ),
    Setting(
        "quota.window.num",
        Kind.INT,
        11,
        "Over how many samples the rates of clients with a quota are measured, the current one included.",
        Bounds(1),
    ),
    Setting(
        "quota.window.size.seconds",
        Kind.INT,
        1,
        "How long a sample of a client's rate lasts; also the longest pause for a `request_percentage`.",
        Bounds(1),
    ),
]
