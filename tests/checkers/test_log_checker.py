"""The checker finds every anomaly by its name, and reports none for a correct log."""

from __future__ import annotations

import pytest
from tests.checkers.history import Outcome, Poll, Seek, Send, Transaction
from tests.checkers.log_checker import check

COMMITTED, ABORTED, UNKNOWN = Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN


def wrote(*sends: Send, at: int = 0, process: str = "writer", outcome: Outcome = COMMITTED) -> Transaction:
    return Transaction(process, sends, outcome, at, at + 9, None if outcome is ABORTED else at + 5)


def read(*records: tuple[int, str], at: int = 50, process: str = "reader", ended: int | None = None) -> Transaction:
    return Transaction(process, (Poll("p", records),), COMMITTED, at, at + 9 if ended is None else ended)


def names(*history: Transaction) -> list[str]:
    return [anomaly.name for anomaly in check(history)]


def test_a_correct_log_has_no_anomalies() -> None:
    assert (
        names(
            wrote(Send("p", "a", 0), Send("p", "b", 1)),
            wrote(Send("p", "x", 3), at=10, outcome=ABORTED),
            wrote(Send("p", "c", 5), at=20, outcome=UNKNOWN),
            wrote(Send("p", "gone"), at=30, outcome=UNKNOWN),
            read((0, "a"), (1, "b")),
            read((5, "c"), at=60),
            Transaction("reader", (Seek("p"), Poll("p", ((0, "a"), (1, "b"), (5, "c")))), COMMITTED, 70, 79),
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("lost write", [wrote(Send("p", "a", 0)), wrote(Send("p", "b", 1), at=10), read((1, "b"))]),
        ("unseen", [wrote(Send("p", "a", 0)), wrote(Send("p", "b", 1), at=10), read((0, "a"))]),
        (
            "lost write",
            [wrote(Send("p", "a", 0), Send("p", "b", 1), outcome=UNKNOWN), read((1, "b"))],
        ),
        ("aborted read (G1a)", [wrote(Send("p", "a", 0), outcome=ABORTED), read((0, "a"))]),
        ("precommitted read", [wrote(Send("p", "a", 0), at=20), read((0, "a"), at=1, ended=22)]),
        ("inconsistent offsets", [wrote(Send("p", "a", 0)), read((0, "b"), process="other"), read((0, "a"))]),
        ("duplicate", [wrote(Send("p", "a", 0)), read((0, "a"), (3, "a"))]),
        ("non-monotonic poll", [wrote(Send("p", "a", 0)), read((0, "a")), read((0, "a"), at=60)]),
        (
            "poll skip",
            [
                wrote(Send("p", "a", 0), Send("p", "b", 1), Send("p", "c", 2)),
                read((0, "a")),
                read((2, "c"), at=60),
                read((0, "a"), (1, "b"), (2, "c"), process="other"),
            ],
        ),
        (
            "non-monotonic send",
            [wrote(Send("p", "b", 1)), wrote(Send("p", "a", 0), at=10), read((0, "a"), (1, "b"))],
        ),
        ("internal non-monotonic send", [wrote(Send("p", "b", 1), Send("p", "a", 0)), read((0, "a"), (1, "b"))]),
        ("internal non-monotonic poll", [wrote(Send("p", "a", 0), Send("p", "b", 1)), read((1, "b"), (0, "a"))]),
        (
            "internal poll skip",
            [
                wrote(Send("p", "a", 0), Send("p", "b", 1), Send("p", "c", 2)),
                read((0, "a"), (2, "c")),
                read((0, "a"), (1, "b"), (2, "c"), process="other"),
            ],
        ),
        (
            "cycle (G1c)",
            [
                Transaction("one", (Send("p", "a", 0), Poll("q", ((0, "b"),))), COMMITTED, 0, 9, 5),
                Transaction("two", (Send("q", "b", 0), Poll("p", ((0, "a"),))), COMMITTED, 0, 9, 5),
            ],
        ),
    ],
)
def test_each_anomaly_is_found_and_named(name: str, history: list[Transaction]) -> None:
    assert name in names(*history)
