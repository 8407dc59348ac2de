"""Real-time alerts: which of them get a process of their own, and how that is kept alive."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.pipelines.driving.supervised import wait_for

from catchment.pipelines.declared import Declared
from catchment.pipelines.driving.companion import Companion, realtime_alerts
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure
from catchment.pipelines.driving.keeping import Patience
from catchment.pipelines.specification import PipelineSpecification

PATIENCE = Patience(lost=2, first_pause_s=0.0, longest_pause_s=0.0)


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
    assert realtime_alerts(asking, is_endless=False).names == ()
    assert realtime_alerts(specification(), is_endless=True) == ((), ())


def test_an_alert_that_may_not_have_it_is_decided_in_micro_batches_and_told_why() -> None:
    asking = specification(trigger="realtime", when=None, absent_for="5 minutes")

    found = realtime_alerts(asking, is_endless=True)

    assert found.names == ()
    assert "alert hot is decided in micro-batches: " in found.refusals[0]


def ended(companion: Companion) -> Failure:
    """Look until it has failed for good."""
    failures: list[Failure] = []

    def has_failed() -> bool:
        if (failure := companion.look()) is not None:
            failures.append(failure)
        return bool(failures)

    wait_for("the companion has failed", has_failed)
    return failures[0]


@pytest.mark.parametrize(
    ("code", "ends_with", "restarts"),
    [(1, ExitCode.FAILED, 2), (2, ExitCode.CONFIGURATION, 0), (-9, ExitCode.FAILED, 2)],
)
def test_it_is_started_again_until_it_cannot_be_cured(code: int, ends_with: ExitCode, restarts: int) -> None:
    program = "import os, sys; code = int(sys.argv[1]); os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)"
    companion = Companion([sys.executable, "-c", program, str(code)], PATIENCE)

    failure = ended(companion)

    assert failure.exit_code == ends_with
    assert companion.status.restarts == restarts
    assert companion.status.state == "failed"


def test_it_ends_when_its_input_does() -> None:
    companion = Companion([sys.executable, "-c", "import sys; sys.stdin.read()"], PATIENCE)
    companion.look()
    process = companion._process
    assert process is not None

    companion.close()

    assert process.returncode == 0
