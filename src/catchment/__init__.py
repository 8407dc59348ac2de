"""Catchment: a Kafka-protocol streaming log in Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

# kio imports Hypothesis wherever it is installed, to register its types there. That costs a quarter of a second, which a
# broker in somebody's test run should not pay: kio may do without, unless Hypothesis is loaded anyway.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # makes the import fail, as if it were not installed
    try:
        import kio.static._phantom  # noqa: F401
    finally:
        del sys.modules["hypothesis"]

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
