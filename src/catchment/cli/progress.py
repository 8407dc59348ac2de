"""A progress bar on stderr while records are sent; nothing where stderr is no terminal."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from catchment.cli.output import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress

_REFRESH_S = 0.1


class SendProgress:
    """Records and bytes so far. Cheap to update: the bar is redrawn ten times a second at most."""

    def __init__(self, total_bytes: int | None, *, visible: bool) -> None:
        self._total_bytes = total_bytes
        self._bar: Progress | None = None
        self._visible = visible and sys.stderr.isatty()
        self._drawn_at = 0.0
        self._started_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._visible:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.start()
            self._bar.add_task("", total=self._total_bytes)
        return self

    def update(self, records: int, size_bytes: int) -> None:
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._drawn_at < _REFRESH_S:
            return
        self._drawn_at = now
        elapsed_s = max(now - self._started_at, 1e-6)
        text = (
            f"{records:,} records  {format_bytes(size_bytes)}  {records / elapsed_s:,.0f}/s"
            f"  {format_bytes(size_bytes / elapsed_s)}/s"
        )
        self._bar.update(self._bar.task_ids[0], completed=size_bytes, description=text, refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
