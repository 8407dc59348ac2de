"""What fails while a command beside a run computes with a stage's code: told as what it is, and never as a fault of Catchment's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind, judge
from catchment.pipelines.refusals import Refusal

_CORRECT: Final = "Correct the stage, with try_cast and try_divide where rows may be odd, and do it again."
_AGAIN: Final = "Do it again."
_UNCHANGED: Final = "Readers of the table see what they saw before."
_ERRORS: Final[dict[ExitCode, type[ClientError]]] = {
    ExitCode.CONFIGURATION: SettingsError,
    ExitCode.REFUSED: Refusal,
}
"""How the others are told, and with which exit code, is in `ClientError`."""


@contextmanager
def computing(what: str) -> Iterator[None]:
    """Around what Spark computes: its errors are those of the stage, of its rows, or of what it reads and writes."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _told(what, judge(error)) from error


def _told(what: str, failure: Failure) -> ClientError:
    advice = _CORRECT if failure.kind is FailureKind.PERMANENT else _AGAIN
    error = _ERRORS.get(failure.exit_code, ClientError)
    return error(f"{what} fails: {failure.message.rstrip('.')}", f"{advice} {_UNCHANGED}")
