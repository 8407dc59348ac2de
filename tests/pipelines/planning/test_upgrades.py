"""Changed pipelines on a real broker: state survives the changes that are allowed, and is not touched by those that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.pipelines.city import City, Report, count_reports, each_once

from catchment.pipelines import Pipeline, Stage, lake, store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _checkpoints(city: City) -> list[str]:
    return sorted(one.name for one in (city.folder / "home" / city.name / "checkpoints").iterdir())


def hills_left_out(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """Rows are left out before the state sees them, and a column is made of its result."""
    from pyspark.sql import functions as F

    return count_reports(clean.where("district <> 'hills'"), crews).withColumn("twice", F.col("crew") * 2)


def minutes(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """Windows of another length."""
    from pyspark.sql import functions as F

    counts = clean.groupBy("district", F.window("at", "1 minute").alias("w")).count()
    return counts.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "crew")


def test_state_survives_a_change_that_is_allowed_and_not_one_that_is_not(city: City) -> None:
    from catchment.pipelines.planning import Refused

    city.send_crew("harbour", 2)
    city.send([Report("a", 1), Report("b", 12), Report("h", 3, "hills")], 15)
    assert set(city.drain_as_planned(city.pipeline()).values()) == {"new"}
    assert city.board() == {("harbour", 0): (1, 2), ("harbour", 10): (1, 2), ("hills", 0): (1, None)}

    city.send([Report("a", 1), Report("c", 2), Report("i", 4, "hills")], 16)
    changed = city.pipeline(hills_left_out, lateness="30 seconds")
    assert set(city.drain_as_planned(changed).values()) == {"reuse"}
    assert city.board() == {("harbour", 0): (2, 2), ("harbour", 10): (1, 2), ("hills", 0): (1, None)}, (
        "a came again, which the deduplication's state knows, and c was added to what the counts' state knows"
    )

    before = _checkpoints(city)
    with pytest.raises(Refused, match="key window was of at, 10 seconds and is of at, 60 seconds") as refused:
        city.plan(city.pipeline(minutes, lateness="30 seconds"))
    assert list(refused.value.refused) == ["outlet-board"]
    assert "version to 2" in str(refused.value)
    assert _checkpoints(city) == before

    decided = city.drain_as_planned(city.pipeline(minutes, lateness="30 seconds", version=2))
    assert decided == {"clean": "reuse", "outlet-board": "new version", "outlet-lake": "reuse"}
    assert _checkpoints(city) == sorted([*before, "outlet-board-v2"])
    assert city.board() == {("harbour", 0): (3, 2), ("hills", 0): (2, None)}, (
        "counted again from the boundary's beginning"
    )
    assert city.lake_ids() == ["a", "b", "c", "h", "i"]


def test_a_sink_may_be_added_and_a_deduplication_changed_in_a_new_version(city: City) -> None:
    city.send([Report("a", 1), Report("a", 2), Report("b", 3)], 15)
    city.drain_as_planned(each_once(city, 1, "id"))
    assert sorted(row["id"] for row in city.values(f"{city.name}.clean")) == ["a", "b"]

    from catchment.pipelines.planning import Refused

    with pytest.raises(Refused, match=r"deduplication within the watermark: key id \(string\) is gone"):
        city.plan(each_once(city, 1, "district"))

    more = each_once(city, 2, "district")
    more.sink(Stage("clean"), store(f"sqlite:///{city.folder}/city.db", table="more"), name="more")
    assert city.drain_as_planned(more) == {"clean": "new version", "outlet-board": "new version", "outlet-more": "new"}
    assert [row["id"] for row in city.values(f"{city.name}.clean.v2")] == ["a"], "a topic of its own"
    assert sorted(row["id"] for row in city.values(f"{city.name}.clean")) == ["a", "b"], "the old one is as it was"


def _with_lakes(city: City, *lakes: tuple[str, str | None]) -> Pipeline:
    """Reports, kept in lakes of these folders and names as well."""
    made = each_once(city, 1, "id")
    for folder, name in lakes:
        made.sink(Stage("clean"), lake(f"{city.folder}/{folder}"), name=name)
    return made


def test_a_lake_has_each_row_once_whatever_its_sink_is_called_and_wherever_it_stands(city: City) -> None:
    from catchment.pipelines.lakes.lake_opening import open_lake
    from catchment.pipelines.planning import Refused

    city.send([Report("a", 1), Report("b", 2)], 15)
    city.drain_as_planned(_with_lakes(city, ("lake", None)))
    assert city.lake_ids() == ["a", "b"]

    city.send([Report("c", 3)], 16)
    with pytest.raises(
        Refused, match=r"outlet-history: .* a second time to lake .*/lake, as outlet-clean-lake-lake did"
    ):
        city.drain_as_planned(_with_lakes(city, ("lake", "history")))
    assert city.lake_ids() == ["a", "b"]

    decided = city.drain_as_planned(_with_lakes(city, ("other", None), ("lake", "clean-lake-lake")))
    assert decided["outlet-clean-lake-other"] == "new"
    assert decided["outlet-clean-lake-lake"] == "reuse"
    assert city.lake_ids() == ["a", "b", "c"]
    assert sorted(open_lake(f"{city.folder}/other").read_arrow().column("id").to_pylist()) == ["a", "b", "c"]
