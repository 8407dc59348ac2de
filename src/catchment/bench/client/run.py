"""Start a client process for one load and wait for its numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from catchment.bench.client.load import Load

_TIMEOUT_SECONDS = 300


def run_load(load: Load) -> dict[str, float]:
    """Run the load in a new process, so that each one costs its client the same."""
    finished = subprocess.run(
        [sys.executable, "-m", "catchment.bench.client", json.dumps(asdict(load))],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError(f"the {load.kind} client failed: {finished.stderr.strip()[-1000:]}")
    result: dict[str, float] = json.loads(finished.stdout)
    return result
