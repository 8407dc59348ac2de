"""The cause inside Spark's exceptions, for people to read: the Python error that was raised, or the JVM's message, without stack traces.

Spark names most errors by an error condition, which the exception or the innermost of its causes has. Errors of its workers and of
callback functions come as text, a traceback within a message within a message. The last
traceback of such a text is the innermost one.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkException

_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(r"(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?")
_FRAME: Final = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_ENDS_MESSAGE: Final = re.compile(r"\s*$|\s*SQLSTATE: |=== Streaming Query ===|JVM stacktrace:|\tat |'\w+ \[")
_TERMINATED: Final = re.compile(r"^.*?terminated with exception: ", re.DOTALL)
_CALLED: Final = re.compile(r"^An error occurred while calling \S+\n: (?:\w+(?:\.[\w$]+)+: )?")
_AWAITED: Final = re.compile(
    r"^Exception thrown in awaitResult: *\n.*?^Caused by: (?:\w+(?:\.[\w$]+)+: )?", re.DOTALL | re.MULTILINE
)
"""The beginning of errors of calls from Python to the JVM, and of rows transferred as Arrow: the cause follows."""
_LOST_TASK: Final = re.compile(r"^Job aborted due to stage failure: .*? executor [^)]*\): (?:[\w.$]+: )?", re.DOTALL)
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]")
_SQL_STATE: Final = re.compile(r";? *SQLSTATE: \w+;?")
USER_RAISED: Final = "USER_RAISED_EXCEPTION"
"""The message of `raise_error` in SQL is not searched, whatever it contains."""
_NOT_THE_AUTHORS: Final = ("/site-packages/", "/lib/python3", "<frozen ", "/catchment/")
_OURS: Final = "catchment."
_IN_A_BATCH: Final = "catchment.pipelines.execution.sinks.BatchFailed"
_NO_MESSAGE: Final = "(no cause message)"
"""Spark's message for a stream that ended with an exception without a message, such as that of a closed connection."""


class Cause(NamedTuple):
    """The innermost cause."""

    kind: str
    """The Python class with its module, or Spark's error condition; empty if there is neither."""
    message: str
    place: str | None = None
    """The innermost line of the author's own file."""

    def __str__(self) -> str:
        name = self.kind.rpartition(".")[2]
        is_ours = self.kind.startswith(_OURS)
        said = self.message if is_ours or not self.kind or self.kind.isupper() else f"{name}: {self.message}"
        return f"{said} ({self.place})" if self.place else said


def cause_of(error: BaseException) -> Cause:
    """The cause of any exception, Spark's or another."""
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        condition = condition_of(error)
        cause = (
            _of_spark(_without_preamble(text_of(error)), None) if condition == USER_RAISED else cause_in(text_of(error))
        )
        return cause._replace(kind=condition) if condition and not _is_class(cause.kind) else cause
    frames = [(one.filename, one.lineno) for one in traceback.extract_tb(error.__traceback__)]
    return Cause(kind_of(type(error)), str(error), _last_of_the_author(frames))


def condition_of(error: BaseException) -> str | None:
    """Spark's error condition; None if the innermost cause has none. Conditions of outer causes say only where it happened."""
    innermost: Any = error
    while (cause := getattr(innermost, "_cause", None)) is not None:
        innermost = cause
    # The JVM that would be asked may be gone.
    with suppress(Exception):
        return innermost.getCondition() if isinstance(innermost, PySparkException) else None
    return None


def is_condition(kind: str) -> bool:
    """Whether the kind of a cause is a condition of Spark's, and not a class of Python's."""
    return kind.isupper()


def _is_class(kind: str) -> bool:
    return bool(kind) and not is_condition(kind)


def kind_of(kind: type[BaseException]) -> str:
    """A class of exceptions by the name that a traceback has for it."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def text_of(error: BaseException) -> str:
    """The text of an exception, with the name of the JVM's exception where that has no message."""
    cause = getattr(error, "_cause", None)
    return str(error) if cause is None else str(error).replace(_NO_MESSAGE, str(cause))


def cause_in(text: str) -> Cause:
    """The cause in the text of one of Spark's exceptions."""
    raised = _tracebacks(text)
    if raised:
        ours = [one for one in raised if one.kind.startswith(_OURS)]
        found = (ours or raised)[-1]
        return _of_spark(found.message, found.place) if found.kind.startswith("pyspark.") else found
    return _of_spark(_without_preamble(text), None)


def _without_preamble(text: str) -> str:
    for preamble in (_TERMINATED, _CALLED, _AWAITED):
        text = preamble.sub("", text)
    return text


def _of_spark(text: str, place: str | None) -> Cause:
    conditions = _CONDITION.findall(text.partition("\n")[0])
    said = _LOST_TASK.sub("", text)
    lines = []
    for line in said.split("\n"):
        if line.startswith(("===", "\tat ", "JVM stacktrace", "Caused by:", "'")):
            break
        lines.append(line)
    message = _CONDITION.sub("", _SQL_STATE.sub("", "\n".join(lines)), count=1).strip()
    return Cause(conditions[0] if conditions else "", message, place)


def _tracebacks(text: str) -> list[Cause]:
    """The error at the end of each traceback in a text."""
    found: list[Cause] = []
    frames: list[tuple[str, int | None]] = []
    is_inside = False
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.rstrip().endswith(_TRACEBACK):
            is_inside, frames = True, []
        elif is_inside and (frame := _FRAME.match(line)):
            frames.append((frame["file"], int(frame["line"])))
        elif is_inside and (raised := _RAISED.fullmatch(line.removeprefix(f"{_IN_A_BATCH}: "))):
            message = _message(raised["message"] or "", lines[number + 1 :])
            found.append(Cause(raised["kind"], message, _last_of_the_author(frames)))
            is_inside = False
    return found


def _last_of_the_author(frames: Sequence[tuple[str, int | None]]) -> str | None:
    """The innermost frame that is neither a library's nor ours."""
    theirs = [one for one in frames if not any(part in one[0] for part in _NOT_THE_AUTHORS)]
    return f"{Path(theirs[-1][0]).name}:{theirs[-1][1]}" if theirs else None


def _message(first: str, following: list[str]) -> str:
    """An error's message, which may have several lines."""
    lines = [first]
    for line in following:
        if _ENDS_MESSAGE.match(line) or line.rstrip().endswith(_TRACEBACK):
            break
        lines.append(line)
    return "\n".join(lines).strip()
