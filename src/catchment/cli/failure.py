"""What a command says when it cannot do what it was asked to do.

`catchment broker` uses this before anything else is loaded, so it stands on the standard library alone.
"""

import os
import sys
from collections.abc import Sequence
from types import TracebackType

TRACEBACK_VARIABLE = "CATCHMENT_TRACEBACK"
FAILED = 1
MISTAKEN = 2
"""The command line, a setting or a pipeline's file makes no sense."""
REFUSED = 3
"""What is there already does not allow it, such as the state of a pipeline that was written otherwise."""
AWAY = 5
"""Brokers, or a store, do not answer."""


class CommandError(Exception):
    """A failure for people: what happened and to what, and what to do next."""

    def __init__(self, message: str, advice: str | None = None, *, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.exit_code = exit_code


def joined(failures: Sequence[CommandError]) -> CommandError:
    """The failures of several things that were to be done at once, as one."""
    return CommandError("\n       ".join(failure.message for failure in failures), failures[0].advice)


def print_failure(error: CommandError) -> None:
    """Two lines on stderr: what happened, and what to do."""
    mark = "\x1b[1;31merror:\x1b[0m" if sys.stderr.isatty() else "error:"
    advice = f"\n       {error.advice}" if error.advice else ""
    sys.stderr.write(f"{mark} {error.message}{advice}\n")


def report_bug(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """What a person sees where Python would print a traceback; serves as `sys.excepthook`."""
    if os.environ.get(TRACEBACK_VARIABLE):
        sys.__excepthook__(kind, error, traceback)
    elif not issubclass(kind, KeyboardInterrupt):
        print_failure(
            CommandError(
                f"unexpected {kind.__name__}: {error}",
                f"This is a bug in Catchment. Set {TRACEBACK_VARIABLE}=1 to see where it happened, and report it.",
            )
        )
