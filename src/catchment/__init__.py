"""Catchment: a Kafka-protocol streaming log in Python."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

# kio imports Hypothesis if it is installed, to register its types there. That takes a quarter of a second, which a broker in
# another project's tests should not cost: kio is imported without it, unless Hypothesis is loaded already.
if "hypothesis" not in sys.modules:
    # None makes the import fail, as if it were not installed.
    sys.modules["hypothesis"] = cast("ModuleType", None)
    try:
        import_module("kio.static._phantom")
    finally:
        del sys.modules["hypothesis"]

if TYPE_CHECKING:
    from types import ModuleType

    from catchment.client.arrow_api import read_arrow, scan_arrow, write_arrow
    from catchment.testing.embedded import Broker

__all__ = ["Broker", "read_arrow", "scan_arrow", "write_arrow"]

if not TYPE_CHECKING:
    _MODULES = {
        "Broker": "catchment.testing.embedded",
        "read_arrow": "catchment.client.arrow_api",
        "scan_arrow": "catchment.client.arrow_api",
        "write_arrow": "catchment.client.arrow_api",
    }

    def __getattr__(name: str) -> object:
        """Load the embedded broker and the Arrow client on first use: most programs that import the package need neither."""
        if name in _MODULES:
            try:
                return getattr(import_module(_MODULES[name]), name)
            except ModuleNotFoundError as error:
                if error.name in ("numba", "numpy", "pyarrow"):
                    message = f"catchment.{name} needs {error.name}: pip install 'catchment-streaming[arrow]'"
                    raise ImportError(message) from error
                raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
