"""A table has one owner at a time, whichever store it is in: a run whose table was claimed by another writes no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.pipelines.ownership.claims import RUNNERS, only_first, owner, winners
from tests.pipelines.stores.boards import board, rows

from catchment.pipelines.ownership.owner import Asking, Found
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.store_opening import open_store


def test_one_of_many_gets_a_table(address: str) -> None:
    def claim(number: int) -> Callable[[], None]:
        def run() -> None:
            with open_store(address, "board") as store:
                store.claim(owner(number), Asking(f"id-{number}"), only_first)

        return run

    [first] = winners([claim(number) for number in range(RUNNERS)])
    with open_store(address, "board") as store:
        assert store.owners() == (owner(first),)


def test_a_table_that_another_run_has_claimed_takes_no_batch_of_the_first(address: str) -> None:
    def anyway(_: Found) -> None:
        """Claim it, whatever is there."""

    with board(address) as first, board(address) as second:
        first.claim(owner(1), Asking("id-1"), anyway)
        assert first.write(rows([("harbour", 1, 1)]), "id-1", 0, 1)
        second.claim(owner(2), Asking("id-1"), anyway)
        with pytest.raises(StoreRefused, match="now owned by a run in /home on here"):
            first.write(rows([("harbour", 2, 1)]), "id-1", 1, 1)
        assert second.write(rows([("harbour", 3, 1)]), "id-1", 1, 1)
        assert second.read().num_rows == 2


def test_what_a_table_says_of_its_writers(address: str) -> None:
    with open_store(address, "board") as store:
        assert store.found(1, Asking(None)) == Found()
    with board(address) as store:
        assert store.found(1, Asking("id-1")) == Found(is_empty=True)
        store.write(rows([("harbour", 1, 1)]), "id-1", 7, 1)
        assert store.found(1, Asking("id-1", frozenset({"id-1"}))) == Found(last_batch=7)
        assert store.found(1, Asking("id-2", frozenset({"id-1", "id-2"}))) == Found()
        assert store.found(1, Asking("id-2", frozenset({"id-2"}))) == Found(has_other_rows=True)
        assert store.found(2, Asking("id-2")) == Found()


def test_a_dropped_table_leaves_nothing_and_others_stay(address: str) -> None:
    with board(address, 1, 2) as store, open_store(address, "boards") as other:
        store.claim(owner(1), Asking("id-1"), only_first)
        other.claim(owner(1), Asking("id-1"), only_first)
        store.write(rows([("harbour", 1, 1)]), "id-1", 0, 1)
        store.drop()
        store.drop()
        assert (store.versions(), store.owners(), store.last_batch("id-1")) == ([], (), None)
        assert other.owners() == (owner(1),)
    with board(address) as again:
        assert again.read().num_rows == 0
