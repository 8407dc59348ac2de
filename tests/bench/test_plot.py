"""The picture of a run."""

from pathlib import Path

import pytest

from catchment.bench.measure import Measure
from catchment.bench.plot import save_plot
from catchment.bench.results import Results
from catchment.bench.target import UNFLUSHED


@pytest.mark.parametrize(("name", "magic"), [("ratios.png", b"\x89PNG"), ("ratios.svg", b"<?xml")])
def test_the_file_name_chooses_the_format(tmp_path: Path, name: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs the extra `bench`")
    results = Results(peers=["kafka", "rabbitmq"])
    results.expect(UNFLUSHED, Measure("produce", "produce 1 KB", "MB/s", bar=1.8))
    for server, value in (("catchment", 4.0), ("kafka", 2.0)):
        results.add(UNFLUSHED, server, {"produce": value})
    save_plot(results, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
