"""An application on the terminal, from its start to its summary, or to the comparison at its end."""

from __future__ import annotations

import os
import select
import shlex
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from catchment.applications.catalogue import TITLES
from catchment.applications.running.board import balance_lines, board, duration, plain_line
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
_INTERRUPTED: Final = 130


def show(
    name: str, *, seconds: float | None, rate: float, port: int | None, folder: Path | None, console: Console
) -> int:
    """Run an application until the user stops it, or for so many seconds and to the comparison; the exit code."""
    with ExitStack() as stack:
        kept = folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"catchment-{name}-")))
        console.print(f"[bold]{name}[/]: {TITLES[name]}")
        world = World(name, folder.resolve(), rate=rate, port=port)
        stack.callback(world.close)
        files = f"files in {kept}" if kept else "temporary files, deleted at the end"
        console.print(f"a broker on {world.broker.servers}, {files}", style="dim", highlight=False)
        world.start()
        observer = Observer(world.layout, world.broker.servers)
        stack.callback(observer.close)
        display = _Display(world, observer, console, stack.enter_context(keyboard()))
        with display:
            display.run(seconds)
            found = None if seconds is None else display.drain()
        try:
            with _stopping(console):
                world.stop_pipeline()
                last = observer.next_look(_LOOK_S) or observer.seen()
                world.close()
        except KeyboardInterrupt:
            world.kill()
            return _INTERRUPTED
        width = console.width if console.is_terminal else None
        console.print(summary(last, name, kept, width), highlight=False, soft_wrap=True)
        if found is None:
            return 0 if last.is_even else 1
        console.print(verdict(found, world.layout), highlight=False, soft_wrap=True)
        return 1 if found else 0


@contextmanager
def _stopping(console: Console) -> Iterator[None]:
    """Report at once that it stops, which takes Spark some seconds; Ctrl-C in the meantime kills everything."""
    if not console.is_terminal:
        console.print("stopping …")
        yield
        return
    with console.status("stopping … (Ctrl-C kills everything at once)"):
        yield


class _Display:
    """The board as it changes on a terminal; elsewhere a line now and then."""

    def __init__(self, world: World, observer: Observer, console: Console, keys: Keys) -> None:
        self._world = world
        self._observer = observer
        self._console = console
        self._keys = keys
        is_drawn = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False, screen=True) if is_drawn else None
        self._title = f"{world.layout.name} on {world.broker.servers}: {TITLES[world.layout.name]}"
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

    def run(self, seconds: float | None) -> None:
        """Until the time is over, or the user presses q; without a time, Ctrl-C is as good."""
        try:
            while seconds is None or time.monotonic() - self._began_s < seconds:
                self._world.check()
                self._draw(self._observer.seen())
                key = self._keys.wait(_REFRESH_S)
                self._act_on(key)
                if key == "q":
                    return
        except KeyboardInterrupt:
            if seconds is not None:
                raise

    def drain(self) -> list[str]:
        """Until everything that was sent is accounted for and in the stores, or the time for that is over; what does not add up."""
        self._set_note("no more events; waiting until all are accounted for", _DRAIN_S)
        self._world.stop_generator()
        deadline_s = time.monotonic() + _DRAIN_S
        while True:
            self._world.check()
            snapshot = self._observer.next_look(_LOOK_S)
            self._draw(snapshot or self._observer.seen())
            key = self._keys.wait(_REFRESH_S)
            if self._act_on(key):
                deadline_s = time.monotonic() + _DRAIN_S
                continue
            is_over = key == "q" or time.monotonic() > deadline_s
            # Alerts come from queries of their own, which may be behind those that the account reads.
            is_read = (
                snapshot is not None
                and snapshot.pipeline.is_idle
                and not (snapshot.lag or snapshot.totals.on_the_way or self._observer.is_broker_away)
            )
            if is_over or is_read:
                found = self._observer.differences()
                if is_over or not found:
                    return found
                self._set_note(f"not yet: {found[0]}", _DRAIN_S)

    def _act_on(self, key: str | None) -> bool:
        """Kill what a key is for; whether it was for anything."""
        match key:
            case "k":
                self._set_note("Spark was killed" if self._world.kill_spark() else "Spark is not running yet")
            case "b":
                self._world.kill_broker()
                self._set_note("the broker was killed; it is started again on its data")
            case _:
                return False
        return True

    def _set_note(self, note: str, for_s: float = _NOTE_S) -> None:
        self._note, self._note_until_s = note, time.monotonic() + for_s

    def _draw(self, snapshot: Snapshot) -> None:
        snapshot = replace(snapshot, news=self._news(snapshot))
        if self._live is not None:
            width, height = self._console.size
            next_commands = hint(self._world.layout, self._world.broker, has_lake=snapshot.lake_rows is not None)
            drawn = board(snapshot, title=self._title, hint=next_commands, width=width, height=height)
            self._live.update(drawn, refresh=True)
        elif time.monotonic() - self._printed_s >= _PLAIN_S:
            self._printed_s = time.monotonic()
            self._console.print(plain_line(snapshot), soft_wrap=True, highlight=False, markup=False)

    def _news(self, snapshot: Snapshot) -> str:
        if self._observer.is_broker_away:
            return "the broker is down and restarts; what was sent meanwhile waits"
        state, since_s = snapshot.pipeline.state, snapshot.pipeline.starting_for_s
        if state == "starting":
            again = "Spark was killed, and starts again" if snapshot.pipeline.starts > 1 else "Spark is starting"
            return f"{again} … {since_s:.0f} s" if since_s is not None else f"{again} …"
        if state != "running":
            return state
        note = self._note if time.monotonic() < self._note_until_s else ""
        return note or ("" if snapshot.totals.stored else "Spark runs; its first batches are the slowest")


class Keys:
    """Keys as they are pressed; none where there is no terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def wait(self, timeout_s: float) -> str | None:
        """The next key, or None if there is none within the time."""
        if not self._is_terminal:
            time.sleep(timeout_s)
            return None
        ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
        # Python's own buffer would hide keys that were pressed quickly one after another.
        return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else None


@contextmanager
def keyboard() -> Iterator[Keys]:
    """The terminal's keys without Enter, if there is a terminal to read from and one to write to."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Keys(is_terminal=False)
        return
    before = termios.tcgetattr(sys.stdin)
    # Not raw: Ctrl-C still interrupts.
    tty.setcbreak(sys.stdin)
    try:
        yield Keys(is_terminal=True)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def hint(layout: Layout, broker: BrokerChild, *, has_lake: bool = True) -> str:
    """What to try beside it: commands that read the answers and the for-ever store."""
    servers = "" if broker.port == USUAL_PORT else f" -b {broker.servers}"
    consume = f"catchment consume {layout.commands or layout.clean}{servers}"
    if layout.lake is None or not has_lake:
        return consume
    return f"{consume} · catchment lake describe {shlex.quote(str(layout.lake))}"


def summary(snapshot: Snapshot, name: str, kept: Path | None, width: int | None = None) -> Text:
    """What an application did, and where its files are, if they are kept."""
    acted = sum(one.acted is not None for one in snapshot.responses)
    lines = [
        Text.assemble((name, "bold"), f" ran for {duration(snapshot.elapsed_s)}"),
        *balance_lines(snapshot, width),
        Text(
            f"stored: {0 if snapshot.table is None else snapshot.table.count:,} rows in the real-time store, "
            f"{snapshot.lake_rows or 0:,} in the for-ever store"
        ),
        Text(f"alerts: {len(snapshot.responses):,}, acted on: {acted:,}"),
    ]
    if kept is None:
        lines.append(Text("the files were temporary and are deleted; --keep DIRECTORY keeps them", "dim"))
    else:
        again = f"catchment example {name} --keep {shlex.quote(str(kept))}"
        lines += [Text(f"files: {kept}", "dim"), Text(f"to continue from them: {again}", "dim")]
    return Text("\n").join(lines)


def verdict(found: list[str], layout: Layout) -> Text:
    """What does not add up, or what was compared and does."""
    if not found:
        *others, last = compared(layout)
        return Text.assemble(("it adds up", "bold green"), f": {', '.join(others)} and {last} agree")
    report = Text.assemble(("it does not add up", "bold red"), ":")
    for one in found[:_NAMED_DIFFERENCES]:
        report.append(f"\n  {one}")
    more = len(found) - _NAMED_DIFFERENCES
    return report.append(f"\n  and {more:,} more") if more > 0 else report
