"""A recomputed history is compared with the one that is shown, and goes on from it, though columns and keys are other ones now."""

from __future__ import annotations

from typing import Final

import pyarrow
import pytest
from tests.pipelines.stores.boards import MOMENT, hour, layout, rows

from catchment.client.errors import SettingsError
from catchment.pipelines.history.changes import Changes, changes_between, taken_over
from catchment.pipelines.stores.definition import Layout

BY_KIND: Final = Layout("board", ("district", "kind", "start"), version=2, window_end="end")
RENAMED: Final = Layout("board", ("district", "start"), version=2, window_end="finish")
SHOWN: Final = rows([("north", 0, 1), ("north", 1, 2), ("south", 1, 3), ("north", 5, 9)])


def with_kinds(table: pyarrow.Table) -> pyarrow.Table:
    return table.append_column("kind", pyarrow.array(["fire"] * table.num_rows, pyarrow.string()))


def renamed(table: pyarrow.Table) -> pyarrow.Table:
    return table.rename_columns(["finish" if name == "end" else name for name in table.column_names])


def test_windows_that_end_by_the_moment_are_compared_by_their_key() -> None:
    computed = rows([("north", 0, 1), ("north", 1, 20), ("west", 1, 4)])
    changes = changes_between(SHOWN, layout(1), computed, layout(2), hour(2))
    assert changes == Changes(same=1, changed=1, added=1, removed=1)


def test_with_another_key_all_rows_are_others() -> None:
    computed = with_kinds(rows([("north", 0, 1), ("north", 1, 2)]))
    assert changes_between(SHOWN, layout(1), computed, BY_KIND, hour(2)) == Changes(0, 0, added=2, removed=3)


def test_windows_whose_end_has_another_name_are_compared_nevertheless() -> None:
    computed = renamed(rows([("north", 0, 1), ("north", 1, 2), ("south", 1, 3)]))
    assert changes_between(SHOWN, layout(1), computed, RENAMED, hour(2)) == Changes(3, 0, 0, 0)


def test_rows_that_are_taken_over_have_nulls_in_columns_that_they_did_not_have() -> None:
    computed = with_kinds(rows([("north", 0, 10), ("north", 1, 20)]))
    taken = taken_over(computed, layout(2), SHOWN, layout(1), hour(1))
    assert taken.schema == computed.schema
    assert [(row["count"], row["kind"]) for row in taken.to_pylist()] == [(1, None), (20, "fire")]


def test_the_end_of_a_window_is_taken_over_under_its_new_name() -> None:
    computed = renamed(rows([("north", 0, 10), ("north", 1, 20)]))
    taken = taken_over(computed, RENAMED, SHOWN, layout(1), hour(1))
    assert [(row["count"], row["finish"]) for row in taken.to_pylist()] == [(1, hour(1)), (20, hour(2))]


def test_rows_without_a_part_of_the_key_cannot_be_taken_over() -> None:
    computed = with_kinds(rows([("north", 0, 10)]))
    with pytest.raises(SettingsError, match="has no column kind, which is part of the key now") as refused:
        taken_over(computed, BY_KIND, SHOWN, layout(1), hour(1))
    assert refused.value.advice == "Recompute all of it, without --from."


def test_a_column_that_became_another_type_cannot_be_taken_over() -> None:
    moments = pyarrow.table({"district": ["north"], "start": [hour(0)], "end": [hour(1)], "count": [hour(3)]})
    computed = moments.cast(SHOWN.schema.set(3, pyarrow.field("count", MOMENT)))
    words = SHOWN.set_column(3, "count", pyarrow.array(["one", "two", "three", "nine"]))
    with pytest.raises(SettingsError, match="column count is string"):
        taken_over(computed, layout(2), words, layout(1), hour(1))


def test_a_table_without_windows_has_no_part_to_take_over() -> None:
    with pytest.raises(SettingsError, match="has no windows"):
        taken_over(rows([("north", 0, 10)]), layout(2), SHOWN, Layout("board", ("district", "start")), hour(1))
