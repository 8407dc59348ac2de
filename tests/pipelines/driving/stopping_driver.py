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
    run = driven_run.DrivenRun
    held: dict[str, Any] = {
        "jvm_pid": lambda spark: 1,
        "silence": lambda spark: None,
        "has_died": lambda spark, within_s=0.0: False,
        "end_jvm": hold,
        "pipeline_session": hold if phase == "spark" else lambda *_, **__: spark,
    }
    for name, replacement in held.items():
        setattr(driven_run, name, replacement)
    if phase == "brokers":
        run._built = away
    elif phase == "batch":
        run._built = lambda self, spark: object()
        run._watch = hold
    elif phase == "end":
        run._built = lambda self, spark: object()
        run._watch = lambda self: None
    return driver.main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
