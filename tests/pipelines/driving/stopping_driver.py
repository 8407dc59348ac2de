"""The driver itself, held up in one of its phases by something that does not end: for `test_stopping`."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from catchment.client.errors import Unreachable
from catchment.pipelines.driving import driven_run, driver


def hold(*_: Any, **__: Any) -> Any:
    """As a call to a JVM that does not answer."""
    Path(sys.argv[2]).touch()
    threading.Event().wait()


def away(*_: Any) -> Any:
    Path(sys.argv[2]).touch()
    raise Unreachable("no broker")


def main(phase: str) -> int:
    process = SimpleNamespace(pid=1, wait=lambda timeout: time.sleep(0), kill=lambda: None, stdin=None)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
    functions: dict[str, Any] = {
        "jvm_pid": lambda spark: 1,
        "silence": lambda spark: None,
        "has_died": lambda spark, within_s=0.0: False,
        "end_jvm": hold,
        "pipeline_session": hold if phase == "spark" else lambda *_, **__: spark,
    }
    methods: dict[str, Any] = {
        "_built": away if phase == "brokers" else lambda self, spark: object(),
        "_watch": hold if phase == "batch" else lambda self: None,
    }
    for name, replacement in functions.items():
        setattr(driven_run, name, replacement)
    for name, replacement in methods.items():
        setattr(driven_run.DrivenRun, name, replacement)
    return driver.main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
