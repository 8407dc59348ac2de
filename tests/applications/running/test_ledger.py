"""The ledger keeps what a generator did, for others to read while it grows."""

from __future__ import annotations

from pathlib import Path

from catchment.applications.running.ledger import Entry, Ledger

_ENTRIES = [Entry(0, "ok", "", 1), Entry(1, "duplicate", "", 3), Entry(2, "broken", "cut off", 1)]


def test_another_reader_sees_what_is_written_and_only_what_is_new_to_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as writer, Ledger(tmp_path / "ledger.db") as reader:
        writer.write(_ENTRIES[:2])
        assert reader.read_from(0) == _ENTRIES[:2]
        writer.write(_ENTRIES[2:])
        assert reader.read_from(2) == _ENTRIES[2:]


def test_numbers_continue_where_the_last_generator_ended(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.next_number == 0
        ledger.write(_ENTRIES)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.next_number == 3


def test_each_sending_again_counts(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.write(_ENTRIES)
        ledger.write_resent([1])
        ledger.write_resent([0, 1])
        assert ledger.resent() == {0: 1, 1: 2}
