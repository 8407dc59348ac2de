"""A lake has one owner at a time, whichever format it has: a run whose lake was claimed by another writes no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.pipelines.lakes.lake_world import numbers, put
from tests.pipelines.ownership.claims import RUNNERS, only_first, owner, winners

from catchment.pipelines.lakes.lake_errors import LakeRefused
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.ownership.owner import Asking, Found


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_one_of_many_gets_a_lake(tmp_path: Path, kind: str) -> None:
    def claim(number: int) -> Callable[[], None]:
        lake = open_lake(str(tmp_path / "lake"), kind=kind)
        return lambda: lake.claim(owner(number), Asking(f"id-{number}"), only_first)

    [first] = winners([claim(number) for number in range(RUNNERS)])
    assert open_lake(str(tmp_path / "lake"), kind=kind).owners() == (owner(first),)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_lake_knows_its_writers_and_is_taken_over(tmp_path: Path, kind: str) -> None:
    lake, second = (open_lake(str(tmp_path / "lake"), kind=kind) for _ in range(2))
    assert lake.found(Asking(None)) == Found()
    assert not (tmp_path / "lake").exists(), "to look creates nothing"
    lake.claim(owner(1), Asking("id-1"), only_first)
    put(lake, numbers(0), "id-1", 0)
    ours = frozenset({"id-1"})
    assert lake.found(Asking("id-1", ours)) == Found((owner(1),), last_batch=0)
    assert lake.found(Asking("id-2")) == Found((owner(1),), has_other_rows=True)
    assert lake.read_arrow().num_rows == numbers(0).num_rows, "readers do not see the owners"
    second.claim(owner(2), Asking("id-1", ours), lambda _: None)
    with pytest.raises(LakeRefused, match="now owned by another run"):
        lake.require_owner()
    second.require_owner()
    if kind == "delta":
        DeltaTable(second.location).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert second.owners() == (owner(2),), "no vacuum takes them"
    second.drop()
    assert not (tmp_path / "lake").exists()
