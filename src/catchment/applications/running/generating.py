"""The process of a generator: events at a rate, in the ledger first and then in the log.

    python -m catchment.applications.running.generating emergency --servers … --topic reports --ledger … --rate 1000 --lateness 20

SIGTERM ends it well: what is due later is sent at once, and everything is safe before it goes.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

from catchment.applications.catalogue import generator_of
from catchment.applications.running.events import Disturbed
from catchment.applications.running.ledger import Ledger
from catchment.applications.running.sending import Sender
from catchment.pipelines.driving.supervision.stop_flag import StopFlag

_TICK_S: Final = 0.05
_MOST_BEHIND_S: Final = 1.0
FINISH_S: Final = 60.0
"""How long it may take, once it is told to stop, until everything is safe."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="generating")
    parser.add_argument("application")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--lateness", type=float, required=True, help="How late events may be, in seconds.")
    parser.add_argument("--count", type=int, help="End after so many events.")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stop = StopFlag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Ledger(options.ledger) as ledger:
        first = ledger.next_number
        generator = generator_of(options.application)
        sender = Sender(options.servers, options.topic, ledger.write_resent)
        for topic, rows in generator.tables.items():
            for key, row in rows.items():
                sender.send_row(topic, key.encode(), json.dumps(row).encode())
        disturbed = Disturbed(generator, Random(options.seed + first), first, lateness_s=options.lateness)
        _send_at_rate(disturbed, ledger, sender, options.rate, options.count, stop)
        sender.send(disturbed.due(None))
        unsafe = sender.finish(time.monotonic() + FINISH_S, time.monotonic)
    if unsafe:
        sys.stderr.write(f"{unsafe} records were not acknowledged within {FINISH_S:.0f} s\n")
    return 1 if unsafe else 0


def _send_at_rate(
    disturbed: Disturbed, ledger: Ledger, sender: Sender, rate: float, count: int | None, stop: StopFlag
) -> None:
    """As many in each tick as the clock asks for. One that is far behind catches up no more than a second of it."""
    made, began_s = 0, time.monotonic()
    while not stop.is_set() and (count is None or made < count):
        behind = (time.monotonic() - began_s) * rate - made
        if behind > rate * _MOST_BEHIND_S:
            began_s += (behind / rate) - _MOST_BEHIND_S
        due = max(0, min(int(behind), int(rate * _MOST_BEHIND_S) + 1, sys.maxsize if count is None else count - made))
        now_s = time.time()
        ledger.write(disturbed.make(due, now_s))
        made += due
        sender.send(disturbed.due(now_s))
        stop.wait(_TICK_S)


if __name__ == "__main__":
    sys.exit(main())
