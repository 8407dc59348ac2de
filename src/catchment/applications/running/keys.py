"""Single keys from a terminal, without Enter, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager


class Keys:
    """Keys as they are pressed; none where nobody can press any."""

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
    """The terminal's keys, if there is a terminal to read from and one to write to."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Keys(is_terminal=False)
        return
    before = termios.tcgetattr(sys.stdin)
    # Not raw: Ctrl-C shall go on to interrupt.
    tty.setcbreak(sys.stdin)
    try:
        yield Keys(is_terminal=True)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
