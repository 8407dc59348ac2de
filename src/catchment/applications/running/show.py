"""An application on the terminal, from its start to the reckoning at its end."""

from __future__ import annotations

import shlex
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from catchment.applications.catalogue import TITLES
from catchment.applications.running.board import balance_line, board, plain_line
from catchment.applications.running.keys import Keys, keyboard
from catchment.applications.running.layout import Layout
from catchment.applications.running.observing import Observer
from catchment.applications.running.processes import USUAL_PORT, BrokerChild
from catchment.applications.running.reconciling import compared
from catchment.applications.running.snapshot import Snapshot
from catchment.applications.running.world import World

_REFRESH_S: Final = 0.2
_PLAIN_S: Final = 5.0
_DRAIN_S: Final = 300.0
_LOOK_S: Final = 5.0
_NOTE_S: Final = 5.0
_NAMED_DIFFERENCES: Final = 20


def show(
    name: str, *, seconds: float | None, rate: float, port: int | None, folder: Path | None, console: Console
) -> int:
    """Run an application until it is told to stop, or for so many seconds and to the reckoning; the exit code."""
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"catchment-{name}-")))
        console.print(f"[bold]{name}[/]: {TITLES[name]}")
        world = World(name, folder.resolve(), rate=rate, port=port)
        stack.callback(world.close)
        console.print(f"a broker on {world.broker.servers}, files in {folder}", style="dim", highlight=False)
        world.start()
        observer = Observer(world.layout, world.broker.servers)
        stack.callback(observer.close)
        showing = _Showing(world, observer, console, stack.enter_context(keyboard()))
        with showing:
            showing.until_told(seconds)
            if seconds is None:
                return 0 if observer.seen().is_even else 1
            found = showing.until_drained()
        console.print(balance_line(observer.seen()))
        console.print(verdict(found, world.layout))
        return 1 if found else 0


class _Showing:
    """The board as it changes, or a line now and then where nobody watches."""

    def __init__(self, world: World, observer: Observer, console: Console, keys: Keys) -> None:
        self._world = world
        self._observer = observer
        self._console = console
        self._keys = keys
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._hint = hint(world.layout, world.broker)
        self._began_s = time.monotonic()
        self._printed_s = 0.0
        self._note = ""
        self._note_until_s = 0.0

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def until_told(self, seconds: float | None) -> None:
        """Until the time is over, or somebody presses q or Ctrl-C."""
        while seconds is None or time.monotonic() - self._began_s < seconds:
            self._world.check()
            self._draw(self._observer.seen())
            key = self._keys.wait(_REFRESH_S)
            self._obey(key)
            if key == "q":
                return

    def until_drained(self) -> list[str]:
        """Until all that was sent is accounted for and in the stores, for as long as that may take; what does not add up."""
        self._tell("no more events; waiting until all are accounted for", _DRAIN_S)
        self._world.stop_generator()
        deadline_s = time.monotonic() + _DRAIN_S
        while True:
            self._world.check()
            snapshot = self._observer.next_look(_LOOK_S)
            self._draw(snapshot or self._observer.seen())
            key = self._keys.wait(_REFRESH_S)
            if self._obey(key):
                deadline_s = time.monotonic() + _DRAIN_S
                continue
            is_over = key == "q" or time.monotonic() > deadline_s
            # Alerts come from queries of their own, which may be behind those that the account is made of.
            is_read = (
                snapshot is not None
                and snapshot.pipeline.is_idle
                and not (snapshot.lag or snapshot.totals.on_the_way or self._observer.is_broker_away)
            )
            if is_over or is_read:
                found = self._observer.reckon()
                if is_over or not found:
                    self._tell("")
                    self._draw(self._observer.seen(), has_keys=False)
                    return found
                self._tell(f"not yet: {found[0]}", _DRAIN_S)

    def _obey(self, key: str | None) -> bool:
        """Kill what a key is for; whether it was for anything."""
        match key:
            case "k":
                self._tell("Spark was killed" if self._world.kill_spark() else "Spark is not running yet")
            case "b":
                self._world.kill_broker()
                self._tell("the broker was killed; it is started again on its data")
            case _:
                return False
        return True

    def _tell(self, note: str, for_s: float = _NOTE_S) -> None:
        self._note, self._note_until_s = note, time.monotonic() + for_s

    def _draw(self, snapshot: Snapshot, *, has_keys: bool = True) -> None:
        snapshot = replace(snapshot, news=self._news(snapshot))
        if self._live is not None:
            self._live.update(board(snapshot, self._hint, has_keys=has_keys), refresh=True)
        elif time.monotonic() - self._printed_s >= _PLAIN_S:
            self._printed_s = time.monotonic()
            self._console.print(plain_line(snapshot), soft_wrap=True, highlight=False, markup=False)

    def _news(self, snapshot: Snapshot) -> str:
        if self._observer.is_broker_away:
            return "the broker is away; it is started again, and what was sent meanwhile waits"
        state, since_s = snapshot.pipeline.state, snapshot.pipeline.starting_for_s
        if state == "starting":
            again = "Spark was killed, and starts again" if snapshot.pipeline.starts > 1 else "Spark is starting"
            return f"{again} … {since_s:.0f} s" if since_s is not None else f"{again} …"
        if state != "running":
            return state
        note = self._note if time.monotonic() < self._note_until_s else ""
        return note or ("" if snapshot.totals.stored else "Spark runs; its first batches are the slowest")


def hint(layout: Layout, broker: BrokerChild) -> str:
    """What to try beside it: commands that read the answers and the for-ever store."""
    servers = "" if broker.port == USUAL_PORT else f" -b {broker.servers}"
    consume = f"catchment consume {layout.commands or layout.clean}{servers}"
    return consume if layout.lake is None else f"{consume} · catchment lake describe {shlex.quote(str(layout.lake))}"


def verdict(found: list[str], layout: Layout) -> Text:
    """What does not add up, or what was compared and does."""
    if not found:
        *others, last = compared(layout)
        return Text.assemble(("it adds up", "bold green"), f": {', '.join(others)} and {last} agree")
    told = Text.assemble(("it does not add up", "bold red"), ":")
    for one in found[:_NAMED_DIFFERENCES]:
        told.append(f"\n  {one}")
    more = len(found) - _NAMED_DIFFERENCES
    return told.append(f"\n  and {more:,} more") if more > 0 else told
