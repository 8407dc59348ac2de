"""Spark's exceptions, unpacked and judged. The texts in `spark_said` are those of Spark 4.3, with stacks cut short."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from py4j.protocol import ERROR, Py4JError, get_return_value

from catchment.client.errors import BrokerError, NoSuchBroker, SettingsError, TimedOut, Unreachable
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import FailureKind, classify
from catchment.pipelines.errors import Mistakes
from catchment.pipelines.execution.sinks import BatchFailed, BatchHandler, for_each_batch
from catchment.pipelines.execution.spark_errors import cause_in
from catchment.pipelines.lakes.lake_errors import LakeAway, LakeRefused
from catchment.pipelines.planning import Refused
from catchment.pipelines.stores.store_errors import StoreAway, StoreDenied, StoreRefused


class SparkSaid(Exception):
    """Stands for an exception of PySpark's: those cannot be made without a JVM."""


SparkSaid.__module__ = "pyspark.errors.exceptions.captured"


def text_of(name: str) -> str:
    return (Path(__file__).with_name("spark_said") / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        (text_of("store_away"), FailureKind.STORE_AWAY, ExitCode.AWAY),
        (text_of("brokers_away"), FailureKind.BROKERS_AWAY, ExitCode.AWAY),
        (text_of("worker_killed"), FailureKind.WORK_LOST, ExitCode.FAILED),
        (text_of("worker_killed_in_arrow"), FailureKind.WORK_LOST, ExitCode.FAILED),
        (text_of("worker_error"), FailureKind.PERMANENT, ExitCode.FAILED),
        (text_of("worker_error_in_a_batch"), FailureKind.PERMANENT, ExitCode.FAILED),
        (text_of("no_column"), FailureKind.PERMANENT, ExitCode.FAILED),
        (text_of("check_stops"), FailureKind.PERMANENT, ExitCode.STOPPED_BY_CHECK),
        (text_of("state_changed"), FailureKind.PERMANENT, ExitCode.REFUSED),
        ("SparkContext was shut down", FailureKind.SPARK_LOST, ExitCode.START_AGAIN),
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
            "\tat a.b(c)\nCaused by: org.apache.spark.rpc.RpcEnvStoppedException: RpcEnv already stopped.",
            FailureKind.SPARK_LOST,
            ExitCode.START_AGAIN,
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            FailureKind.SPARK_LOST,
            ExitCode.START_AGAIN,
        ),
    ],
    ids=[
        "store",
        "brokers",
        "killed",
        "killed-in-arrow",
        "worker",
        "in-batch",
        "column",
        "check",
        "state",
        "spark",
        "rpc",
        "java",
    ],
)
def test_what_spark_says_is_judged_by_its_innermost_cause(text: str, kind: FailureKind, code: ExitCode) -> None:
    failure = classify(SparkSaid(text))

    assert (failure.kind, failure.exit_code) == (kind, code)


def test_a_call_that_the_jvm_never_answers_is_for_another_driver_to_try() -> None:
    # The connection breaks before the JVM's process is seen to be gone, by some time on a busy machine.
    with pytest.raises(Py4JError) as raised:
        get_return_value(ERROR, None, "o2686", "isActive")

    for is_building in (False, True):
        failure = classify(raised.value, is_building=is_building)
        assert (failure.kind, failure.exit_code) == (FailureKind.SPARK_LOST, ExitCode.START_AGAIN)
    failure_of_answer = classify(
        Py4JError("An error occurred while calling o1.x. Trace:\npy4j.Py4JException: Method x([]) does not exist")
    )
    assert failure_of_answer.kind is FailureKind.PERMANENT, "an answer, though not one that one would like"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (text_of("store_away"), "the store postgresql://db is away. Start it."),
        (text_of("worker_error"), "ZeroDivisionError: division by zero (city.py:44)"),
        (text_of("worker_error_in_a_batch"), "ValueError: two lines:\nof text (city.py:44)"),
        (
            text_of("no_column"),
            "A column, variable, or function parameter with name `nosuch` cannot be resolved. "
            "Did you mean one of the following? [`i`]. (city.py:52)",
        ),
        (
            text_of("worker_killed"),
            "Python worker exited unexpectedly (crashed). "
            "Consider setting 'spark.python.worker.faulthandler.enabled' to 'true'.",
        ),
        (
            text_of("worker_killed_in_arrow"),
            "Python worker exited unexpectedly (crashed). Consider setting "
            "'spark.sql.execution.pyspark.udf.faulthandler.enabled' or'spark.python.worker.faulthandler.enabled' "
            "configuration to 'true' for the better Python traceback.",
        ),
        ("An error occurred while calling o1.x.\n: java.io.EOFException\n\tat a.b(c)", "java.io.EOFException"),
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.b(c)",
            "Exception thrown in awaitResult:",
        ),
        (text_of("check_stops"), "stopped by a check: failed check: crew > 0"),
        (
            text_of("state_changed"),
            "Provided key schema does not match existing state key schema.\nPlease check number and type of fields.",
        ),
    ],
    ids=[
        "store",
        "worker",
        "in-batch",
        "column",
        "killed",
        "killed-in-arrow",
        "no-words",
        "no-cause",
        "check",
        "state",
    ],
)
def test_people_read_the_cause_without_stacks(text: str, said: str) -> None:
    assert str(cause_in(text)) == said


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (StoreAway("away"), FailureKind.STORE_AWAY, ExitCode.AWAY),
        (LakeAway("away"), FailureKind.STORE_AWAY, ExitCode.AWAY),
        (Unreachable("away"), FailureKind.BROKERS_AWAY, ExitCode.AWAY),
        (NoSuchBroker("away"), FailureKind.BROKERS_AWAY, ExitCode.AWAY),
        (TimedOut("slow"), FailureKind.BROKERS_AWAY, ExitCode.AWAY),
        (BrokerError(ErrorCode.not_leader_or_follower, "cannot read"), FailureKind.BROKERS_AWAY, ExitCode.AWAY),
        (BrokerError(ErrorCode.topic_authorization_failed, "cannot read"), FailureKind.PERMANENT, ExitCode.FAILED),
        (StoreRefused("column a"), FailureKind.PERMANENT, ExitCode.REFUSED),
        (StoreDenied("password"), FailureKind.PERMANENT, ExitCode.CONFIGURATION),
        (LakeRefused("column a"), FailureKind.PERMANENT, ExitCode.REFUSED),
        (Refused({}), FailureKind.PERMANENT, ExitCode.REFUSED),
        (Mistakes([]), FailureKind.PERMANENT, ExitCode.CONFIGURATION),
        (SettingsError("wrong"), FailureKind.PERMANENT, ExitCode.CONFIGURATION),
        (ConnectionResetError("reset"), FailureKind.WORK_LOST, ExitCode.FAILED),
        (ValueError("wrong"), FailureKind.PERMANENT, ExitCode.FAILED),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else None,
)
def test_our_own_errors_are_judged_alike(error: Exception, kind: FailureKind, code: ExitCode) -> None:
    failure = classify(error)

    assert (failure.kind, failure.exit_code) == (kind, code)


def test_what_is_wrong_with_a_plan_is_a_matter_of_configuration() -> None:
    assert (
        classify(SparkSaid("[PARSE_SYNTAX_ERROR] Syntax error"), is_building=True).exit_code == ExitCode.CONFIGURATION
    )
    assert classify(StoreRefused("column a"), is_building=True).exit_code == ExitCode.REFUSED


def raising(error: Exception) -> BatchHandler:
    def handle(rows: object, batch_id: int) -> bool:
        raise error

    return handle


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (StoreAway("the store is away", "Start it."), FailureKind.STORE_AWAY, "the store is away. Start it."),
        (SparkSaid(text_of("brokers_away")), FailureKind.BROKERS_AWAY, "cannot connect to 127.0.0.1:9092"),
        (SparkSaid(text_of("worker_killed")), FailureKind.WORK_LOST, "Python worker exited unexpectedly"),
        (SparkSaid(text_of("worker_error")), FailureKind.PERMANENT, "ZeroDivisionError: division by zero (city.py:44)"),
    ],
    ids=["store", "brokers", "killed", "worker"],
)
def test_a_batch_that_fails_has_a_short_message_and_is_classified_the_same(
    error: Exception, kind: FailureKind, said: str
) -> None:
    rows: Any = None
    with pytest.raises(BatchFailed) as raised:
        for_each_batch(raising(error))(rows, 0)
    text = "".join(traceback.format_exception(raised.value))

    failure = classify(SparkSaid(f"terminated with exception: An exception was raised. Return Message: {text}"))

    assert "Traceback" not in str(raised.value)
    assert failure.kind is kind
    assert said in failure.message
