"""Catchment: a Kafka-protocol streaming log in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catchment.testing.embedded import Broker

__all__ = ["Broker"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load the embedded broker when it is asked for: most who import the package do not run one."""
        if name == "Broker":
            from catchment.testing.embedded import Broker

            return Broker
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
