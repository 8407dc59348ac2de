"""Real-time alerts: which of them get a process of their own, and how that is kept alive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.pipelines.driving.supervised import wait_for

from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind
from catchment.pipelines.driving.realtime_alerts import RealtimeProcess, realtime_alerts
from catchment.pipelines.driving.restarting_query import RetryLimits
from catchment.pipelines.home import Home
from catchment.pipelines.realtime.eligibility import NOT_ALLOWED, notes, read_reasons, write_reasons

PATIENCE = RetryLimits(lost=2, first_pause_s=0.0, longest_pause_s=0.0)


def specification(**alert: Any) -> PipelineSpecification:
    declared = {
        "pipeline": "city",
        "sources": {"readings": {"topic": "readings", "schema": "room string, degrees double"}},
        "alerts": {
            "hot": {"from": "readings", "when": "degrees > 30", "key": "room", "to": {"topic": "fan"}} | alert,
        },
    }
    return Declared(declared).check()


def test_an_alert_that_asks_for_real_time_mode_and_may_have_it_gets_it_unless_the_run_is_to_end() -> None:
    asking = specification(trigger="realtime")

    assert realtime_alerts(asking, is_endless=True).names == ("hot",)
    ending = realtime_alerts(asking, is_endless=False)
    assert ending.names == ()
    assert ending.refusals[0].startswith(
        "alert hot is decided in micro-batches: a run that processes what is there now"
    )
    assert realtime_alerts(specification(), is_endless=True) == ((), ())


def test_an_alert_that_is_not_allowed_is_decided_in_micro_batches_with_the_reason() -> None:
    asking = specification(trigger="realtime", when=None, absent_for="5 minutes")

    found = realtime_alerts(asking, is_endless=True)

    assert found.names == ()
    assert "alert hot is decided in micro-batches: " in found.refusals[0]


def test_without_the_jars_all_are_decided_in_micro_batches_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    found = realtime_alerts(specification(trigger="realtime"), is_endless=True)

    assert found.names == ()
    assert "alert hot is decided in micro-batches: Spark's own Kafka connector is not here" in found.refusals[0]


def ended(realtime: RealtimeProcess) -> Failure:
    """Look until it has failed for good."""
    failures: list[Failure] = []

    def has_failed() -> bool:
        if (failure := realtime.check()) is not None:
            failures.append(failure)
        return bool(failures)

    wait_for("the realtime has failed", has_failed)
    return failures[0]


@pytest.mark.parametrize(
    ("code", "ends_with", "restarts"),
    [(1, ExitCode.FAILED, 2), (2, ExitCode.CONFIGURATION, 0), (-9, ExitCode.FAILED, 2)],
)
def test_it_is_started_again_until_it_cannot_be_cured(code: int, ends_with: ExitCode, restarts: int) -> None:
    program = "import os, sys; code = int(sys.argv[1]); os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)"
    realtime = RealtimeProcess([sys.executable, "-c", program, str(code)], PATIENCE)

    failure = ended(realtime)

    assert failure.exit_code == ends_with
    assert realtime.status.restarts == restarts
    assert realtime.status.state == "failed"


def test_brokers_that_are_away_are_waited_for_as_long_as_the_run_has_patience() -> None:
    now_s = [0.0]
    patience = RetryLimits(away_s=100.0, lost=2, first_pause_s=0.0, longest_pause_s=0.0)
    realtime = RealtimeProcess([sys.executable, "-c", "import sys; sys.exit(5)"], patience, clock=lambda: now_s[0])

    def has_been_started_often() -> bool:
        assert realtime.check() is None
        return realtime.status.restarts > patience.lost + 1

    wait_for("the process is restarted again and again", has_been_started_often)
    assert (realtime.status.state, realtime.status.waits_for) == ("waiting", "the brokers")

    now_s[0] = 101.0
    failure = ended(realtime)

    assert (failure.kind, failure.exit_code) == (FailureKind.BROKERS_AWAY, ExitCode.AWAY)


def test_one_whose_queries_run_waits_for_nothing_and_after_a_while_has_never_failed(tmp_path: Path) -> None:
    second, end = tmp_path / "second", tmp_path / "end"
    program = (
        "import pathlib, sys, time\n"
        f"second, end = pathlib.Path({str(second)!r}), pathlib.Path({str(end)!r})\n"
        "if second.exists():\n"
        "    print('running', flush=True)\n"
        "    while not end.exists(): time.sleep(0.01)\n"
        "second.touch()\n"
        "sys.exit(5)\n"
    )
    now_s = [0.0]
    patience = RetryLimits(away_s=100.0, first_pause_s=0.0, longest_pause_s=0.0)
    realtime = RealtimeProcess([sys.executable, "-c", program], patience, clock=lambda: now_s[0])

    def has_state(state: str) -> bool:
        assert realtime.check() is None
        return realtime.status.state == state

    wait_for("the brokers are away", lambda: has_state("waiting"))
    wait_for("its queries run", lambda: has_state("running"))
    assert realtime.status.waits_for is None

    now_s[0] = 150.0
    assert has_state("running")
    end.touch()
    wait_for("the brokers are away again", lambda: has_state("waiting"))
    realtime.close()


def test_one_that_finds_real_time_mode_refused_is_left_alone_and_ends_no_run() -> None:
    realtime = RealtimeProcess([sys.executable, "-c", f"import sys; sys.exit({NOT_ALLOWED})"], PATIENCE)

    def is_refused() -> bool:
        assert realtime.check() is None
        return realtime.is_refused

    wait_for("the realtime has refused", is_refused)
    assert realtime.check() is None
    assert realtime._process is None
    assert (realtime.status.state, realtime.status.restarts) == ("stopped", 0)


def test_the_reasons_reach_the_driver_and_alerts_without_one_name_the_others(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    write_reasons(home, {"hot": ["it sorts", "it joins two streams"]})

    assert notes(["hot", "cold"], read_reasons(home)) == (
        "alert hot is decided in micro-batches: it sorts",
        "alert hot is decided in micro-batches: it joins two streams",
        "alert cold is decided in micro-batches: it shares a session with hot, and all have real-time mode or none",
    )
    assert notes(["hot", "cold"], {}) == ()


def test_it_ends_when_its_input_does() -> None:
    realtime = RealtimeProcess([sys.executable, "-c", "import sys; sys.stdin.read()"], PATIENCE)
    realtime.check()
    process = realtime._process
    assert process is not None

    realtime.close()

    assert process.returncode == 0
