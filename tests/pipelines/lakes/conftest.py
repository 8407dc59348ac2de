"""Lakes of both formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from catchment.pipelines.lakes import Lake, open_lake


@pytest.fixture(params=["delta", "parquet"])
def make_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Lake]:
    """Open the test's lake, as a driver does that has just been started."""
    return lambda: open_lake(str(tmp_path / "lake"), kind=request.param, partition_by="district")
