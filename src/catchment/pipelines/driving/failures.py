"""Classification of failures: whether to restart the query, what it waits for, and how the run ends otherwise."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.client.errors import BrokerError, NoSuchBroker, SettingsError, TimedOut, Unreachable
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.errors import Mistakes, Refusal
from catchment.pipelines.execution.source_stage import STOPPED_BY_CHECK
from catchment.pipelines.execution.spark_errors import USER_RAISED, Cause, cause_of, is_condition, kind_of, text_of
from catchment.pipelines.lakes.lake_errors import LakeAway, LakeRefused
from catchment.pipelines.ownership.owner import NotOwned
from catchment.pipelines.planning.deciding import Refused
from catchment.pipelines.stores.store_errors import StoreAway, StoreDenied, StoreRefused


class FailureKind(Enum):
    """Failures by how they are handled."""

    STORE_AWAY = "store away"
    BROKERS_AWAY = "brokers away"
    WORK_LOST = "work lost"
    """A worker or a task of Spark was lost: the same batch may succeed."""
    SPARK_LOST = "Spark lost"
    """The JVM is gone or has given up: another driver may succeed."""
    PERMANENT = "permanent"


class Failure(NamedTuple):
    """A classified failure."""

    kind: FailureKind
    message: str
    exit_code: ExitCode

    @property
    def is_transient(self) -> bool:
        return self.kind in (FailureKind.STORE_AWAY, FailureKind.BROKERS_AWAY, FailureKind.WORK_LOST)


def _kinds(*classes: type[BaseException]) -> frozenset[str]:
    """The names of exception classes as they appear in Spark's error texts."""
    return frozenset(kind_of(one) for one in classes)


_STORES: Final = _kinds(StoreAway, LakeAway)
_BROKERS: Final = _kinds(Unreachable, NoSuchBroker, TimedOut)
_BROKER_ERRORS: Final = _kinds(BrokerError)
_CONNECTIONS: Final = _kinds(
    BrokenPipeError,
    ConnectionAbortedError,
    ConnectionError,
    ConnectionRefusedError,
    ConnectionResetError,
    TimeoutError,
)
_REFUSALS: Final = _kinds(Refusal, Refused, NotOwned, StoreRefused, LakeRefused)
_REFUSED_STATE: Final = re.compile(
    r"STATE_STORE_\w*(SCHEMA|NOT_COMPATIBLE|INVALID_CONFIG)\w*|STREAMING_STATEFUL_OPERATOR\w*"
    r"|STREAMING_QUERY_EVOLUTION_ERROR\.\w+|INCOMPATIBLE_\w*STATE\w*"
)
_MISTAKES: Final = _kinds(SettingsError, Mistakes, StoreDenied)
_LOST_WORK: Final = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure|executor lost"
    r"|java\.io\.EOFException|java\.net\.SocketException|Connection reset|Broken pipe"
)
_LOST_SPARK: Final = re.compile(
    r"SparkContext was shut down|stopped SparkContext|RpcEnv already stopped|Answer from Java side is empty"
    r"|error occurred while trying to connect to the Java server|All masters are unresponsive|application has been killed"
)
_NO_JAVA: Final = "JAVA_GATEWAY_EXITED"
_NO_ANSWER: Final = re.compile(r"An error occurred while calling \S+")
"""py4j's message for a connection that broke within a call, perhaps before the end of the JVM process is visible."""
_PY4J_NETWORK: Final = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "EOFError")
_CODE: Final = re.compile(r"\(([A-Z][A-Z_]+)\)")


def classify(error: BaseException, *, is_building: bool = False) -> Failure:
    """Classify an exception that ended a query or prevented building it: in the latter case Spark's errors are about
    what the author wrote."""
    cause = cause_of(error)
    # Where Spark has an error condition, the text is not searched: it may contain anything, such as values of a row.
    text = "" if _is_named(cause) else text_of(error)
    if _is_spark_lost(error, cause, text):
        return Failure(FailureKind.SPARK_LOST, "Spark has ended", ExitCode.START_AGAIN)
    if cause.message.startswith(STOPPED_BY_CHECK) and cause.kind in (USER_RAISED, ""):
        return Failure(FailureKind.PERMANENT, cause.message, ExitCode.STOPPED_BY_CHECK)
    if cause.kind in _STORES:
        return Failure(FailureKind.STORE_AWAY, str(cause), ExitCode.AWAY)
    if cause.kind in _BROKERS or _is_retriable(cause):
        return Failure(FailureKind.BROKERS_AWAY, str(cause), ExitCode.AWAY)
    if cause.kind in _CONNECTIONS or _LOST_WORK.search(text):
        return Failure(FailureKind.WORK_LOST, f"work was lost: {cause}", ExitCode.FAILED)
    return Failure(FailureKind.PERMANENT, str(cause), _exit_code(cause, is_building))


def _exit_code(cause: Cause, is_building: bool) -> ExitCode:
    if cause.kind in _REFUSALS or _REFUSED_STATE.fullmatch(cause.kind):
        return ExitCode.REFUSED
    if is_building or cause.kind in _MISTAKES:
        return ExitCode.CONFIGURATION
    return ExitCode.FAILED


def _is_retriable(cause: Cause) -> bool:
    """Whether a broker's error code is retriable."""
    if cause.kind not in _BROKER_ERRORS:
        return False
    names = [name.lower() for name in _CODE.findall(cause.message)]
    return any(code.retriable for code in ErrorCode if code.name in names)


def _is_named(cause: Cause) -> bool:
    """Whether Spark's error condition says what happened; those of Python processes say only where."""
    return is_condition(cause.kind) and "PYTHON" not in cause.kind


def _is_spark_lost(error: BaseException, cause: Cause, text: str) -> bool:
    if cause.kind == _NO_JAVA:
        return True
    is_gateway = type(error).__module__.startswith("py4j.")
    is_broken = type(error).__name__ in _PY4J_NETWORK or _NO_ANSWER.fullmatch(text) is not None
    return (is_gateway and is_broken) or _LOST_SPARK.search(text) is not None
