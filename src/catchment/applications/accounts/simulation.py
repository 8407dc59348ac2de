"""The bank of the example: customers who open accounts, deposit and withdraw, and a safeguard that freezes overdrawn accounts."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "the lowest accounts", "account", "cents", beside=("events", "changed"), order=("cents", "ASC")
)
_ACCOUNTS: Final = 500
_CARELESS: Final = 0.0005


class Events(Generator):
    """Deposits and withdrawals. Most customers withdraw no more than they have."""

    key = "account"
    invalid = ({"kind": "robbed"}, {"cents": -100})

    def __init__(self) -> None:
        self._cents: dict[str, int] = {}

    def event(self, random: Random, now_s: float) -> Event:
        account = f"account-{random.randrange(_ACCOUNTS)}"
        has = self._cents.get(account)
        if has is None:
            kind, cents = "opened", random.randrange(10_000, 100_000)
        elif random.random() < _CARELESS:
            kind, cents = "withdrawn", max(has, 0) + random.randrange(1, 10_000)
        elif has > 1_000 and random.random() < 0.5:
            kind, cents = "withdrawn", random.randrange(1, has // 4)
        else:
            kind, cents = "deposited", random.randrange(1, 20_000)
        self._cents[account] = (has or 0) + (-cents if kind == "withdrawn" else cents)
        return {"account": account, "kind": kind, "cents": cents}


class Actuator:
    """Frozen accounts."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()

    def act(self, command: dict[str, Any]) -> str | None:
        account = str(command["row"]["account"])
        if account in self.frozen:
            return None
        self.frozen.add(account)
        return f"{account} is frozen"
