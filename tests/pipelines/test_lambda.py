"""A stage that was wrong is computed anew from the lake, and readers see the old history or the new one, nothing between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.pipelines.city import City, Report, count_reports

from catchment.client.errors import SettingsError
from catchment.pipelines.backfill import Changes, backfill, rollback

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def count_twice(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """The mistake."""
    from pyspark.sql import functions as F

    return count_reports(clean, crews).withColumn("count", F.col("count") * 2)


def test_a_repaired_stage_is_shown_whole_and_can_be_taken_back(city: City) -> None:
    city.send([Report(f"a{number}", number / 10) for number in range(200)], seconds=20)
    city.drain(city.pipeline(count_twice))
    city.send([Report(f"b{number}", 60 + number / 10) for number in range(100)], seconds=70)
    city.drain(city.pipeline(count_twice))
    # Spark looks at its new watermark with the next rows.
    city.send([Report("c", 75)], seconds=75)
    city.drain(city.pipeline(count_twice))
    wrong = {("harbour", 0): (200, None), ("harbour", 10): (200, None), ("harbour", 60): (200, None)}
    assert city.board() == wrong | {("harbour", 70): (2, None)}

    repaired = city.pipeline(version=2)
    (looked,) = backfill(city.place(repaired), "board", is_dry_run=True)
    assert looked.changes == Changes(same=0, changed=2, added=0, removed=0)
    assert city.board() == wrong | {("harbour", 70): (2, None)}

    # Events keep coming, and the old pipeline goes on, while the history is computed anew.
    city.send([Report("d", 76)], seconds=76)
    city.drain(city.pipeline(count_twice))
    (done,) = backfill(city.place(repaired), "board")
    assert (done.version, done.rows, done.is_shown) == (2, 2, True)
    right = {("harbour", 0): (100, None), ("harbour", 10): (100, None), ("harbour", 60): (100, None)}
    assert city.board() == right | {("harbour", 70): (2, None)}
    with pytest.raises(SettingsError, match="Set the pipeline's version to 3"):
        list(backfill(city.place(repaired), "board"))

    # The repaired pipeline goes on where the backfill has brought it.
    city.send([Report("e", 77)], seconds=77)
    city.drain(repaired, {"outlet-board": 2})
    assert city.board() == right | {("harbour", 70): (3, None)}

    assert list(rollback(city.place(repaired).graph, city.folder, "board")) == [("board", 1)]
    assert city.board() == wrong | {("harbour", 70): (4, None)}


def test_what_cannot_be_computed_anew_is_said(city: City) -> None:
    place = city.place(city.pipeline(version=2))
    with pytest.raises(SettingsError, match=r"clean is no stage with a function or SQL.*board"):
        list(backfill(place, "clean"))
