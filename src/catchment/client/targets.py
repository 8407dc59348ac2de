"""Whom a request is for."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

GROUP: Final = 0
TRANSACTION: Final = 1


class Coordinator(NamedTuple):
    """The broker that coordinates `key`, which names a group or is a transactional id."""

    key: str
    key_type: int
    """`GROUP` or `TRANSACTION`."""


Target = Literal["any", "controller"] | int | Coordinator
"""An integer is a broker's id."""
