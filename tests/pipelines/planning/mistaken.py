"""A shop's pipeline with every typing mistake of the reference in it, each once, and the same without them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

REFERENCE: Final = Path(__file__).parents[3] / "docs" / "reference" / "pipelines.md"
FILE: Final = "shop.yaml"
STEPS: Final = "steps.py"
_ROW: Final = re.compile(r"^\| [^`|]*\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)

_YAML: Final = """\
pipeline: shop
sources:
  orders:
    topic: orders
    schema: id string, shop string, amount int, price double, at timestamp
    event_time: at
    lateness: 20 seconds
  returns:
    topic: returns
    schema: id string, back timestamp
    event_time: bakc
    lateness: 20 seconds
  refunds:
    topic: refunds
    schema: id string, paid string, paid_at timestamp
    event_time: paid
    lateness: 20 seconds
tables:
  shops:
    topic: shops
    schema: shop string, city string
    key: shpo
stages:
  clean:
    from: orders
    dedupe: idd
    checks:
      - expect: amnt > 0
      - expect: amount + 1
      - expect: price >
    to: {topic: orders.clean, key: shp}
  board:
    from: clean
    mode: update
    key: [shop, begin]
    sql: |
      SELECT shop, w.start, w.end, n AS orders
      FROM (SELECT shop, window(at, '10 seconds') w, count(*) n FROM clean GROUP BY 1, 2)
  timed:
    from: clean
    event_time: amount
    sql: SELECT id, amount, at FROM clean
  doubled:
    from: clean
    sql: |
      SELECT id,
             amont * 2 AS twice
      FROM clean
  started:
    from: clean
    mode: update
    key: start
    sql: |
      SELECT
        w.strat AS start
      FROM (SELECT window(at, '10 seconds') w, count(*) n FROM clean GROUP BY 1)
  placed:
    from: [clean, shops]
    sql: |
      SELECT id, city FROM clean
      JOIN shpos USING (shop)
  named:
    from: clean
    sql: SELECT id FORM clean
  chosen:
    from: clean
    function: steps.py:chosen
sinks:
  - from: clean
    lake: lake/orders
    partition_by: date(att)
  - from: clean
    lake: lake/prices
    partition_by: price
  - from: clean
    topic: copies
    key: [id, shopp]
  - from: board
    store: "sqlite:///shop.db"
    table: board
    key: [shop, strat]
  - from: board
    store: "sqlite:///shop.db"
    table: ended
    key: shop
    window_end: ned
  - from: board
    store: "sqlite:///shop.db"
    table: counted
    key: shop
    window_end: orders
  - from: board
    store: "sqlite:///shop.db"
    table: kept
    ttl: 0 s
alerts:
  burst:
    from: board
    when: order > 20
    key: sohp
    message: "{shpo} has very many orders"
    to: {topic: dispatch, key: shoop}
  counted:
    from: board
    when: orders > 20
    key: shop
    message: "there are {orders:.2x}"
    to: {topic: dispatch}
  large:
    from: clean
    when: amount * 2
    key: shop
    to: {topic: dispatch}
  silent:
    from: clean
    absent_for: 5 minutes
    key: [shops]
    to: {topic: dispatch}
  quiet:
    from: clean
    absent_for: 5 minutes
    key: shop
    message: "{amount} of a shop is not heard of"
    to: {topic: dispatch}
"""
_FUNCTIONS: Final = """\
def chosen(orders):
    large = orders.where("amount > 10")
    return large.select(
        "id",
        "amuont",
    )
"""


class Slip(NamedTuple):
    """A row of the reference's table."""

    written: str
    meant: str
    reported: str


def slips() -> list[Slip]:
    """All rows of the table."""
    section = REFERENCE.read_text(encoding="utf-8").split("### Typing mistakes")[1].split("\n#")[0]
    found = [Slip(*row) for row in _ROW.findall(section)]
    assert len(found) == section.count("\n| ") - 1, "every row is understood, but for the title"
    return found


def write_mistaken(folder: Path) -> Path:
    """The pipeline with all of the mistakes."""
    (folder / STEPS).write_text(_FUNCTIONS)
    (folder / FILE).write_text(_YAML)
    return folder / FILE


def write_meant(folder: Path) -> Path:
    """The pipeline without them."""
    yaml, functions = _YAML, _FUNCTIONS
    for slip in slips():
        yaml, functions = yaml.replace(slip.written, slip.meant), functions.replace(slip.written, slip.meant)
    (folder / STEPS).write_text(functions)
    (folder / FILE).write_text(yaml)
    return folder / FILE


def place_of(slip: Slip) -> str:
    """The file and the line where a mistake is written. What a call of several lines does is known by its first."""
    if slip.written in _FUNCTIONS:
        assert _FUNCTIONS.count(slip.written) == 1, slip
        return f"{STEPS}:{_FUNCTIONS[: _FUNCTIONS.index('large.select')].count(chr(10)) + 1}"
    (found,) = [number for number, line in enumerate(_YAML.split("\n"), start=1) if slip.written in line]
    return f"{FILE}:{found}"
