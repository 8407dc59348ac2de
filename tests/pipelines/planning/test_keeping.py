"""What a run keeps for the next one: written in one step, and only of checkpoints that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.client.errors import ClientError
from catchment.pipelines.home import Home
from catchment.pipelines.planning import Current, Operator, Part, Plan, Signature, compare, keep, kept_versions
from catchment.pipelines.planning.deciding import Refused, read_kept

BY_ID = Operator(kind="deduplication", parts=(Part(name="key id", what="string"),))
BY_NAME = Operator(kind="deduplication", parts=(Part(name="key name", what="string"),))


def _current(operator: Operator = BY_ID, version: int = 1) -> Current:
    return Current(version=version, queries={"clean": Signature(kind="intake", reads=("events",), state=(operator,))})


def _start(home: Home, query: str, version: int) -> None:
    """As Spark does when it first starts a query."""
    checkpoint = home.checkpoint(query, version)
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text("{}")


def _plan(home: Home, current: Current) -> Plan:
    from catchment.pipelines.planning.deciding import kept_with_checkpoints

    return compare(kept_with_checkpoints(home), current)


def test_what_was_kept_is_what_the_next_run_is_compared_with(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    assert read_kept(home) is None
    keep(home, _plan(home, _current()))
    _start(home, "clean", 1)
    assert _plan(home, _current()).queries["clean"].action == "reuse"
    assert _plan(home, _current(BY_NAME)).queries["clean"].action == "refuse"
    assert sorted(one.name for one in home.folder.iterdir()) == ["checkpoints", "plan.json"]


def test_what_was_planned_but_never_started_may_change(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    keep(home, _plan(home, _current()))
    assert _plan(home, _current(BY_NAME)).queries["clean"].action == "new"


def test_every_version_of_a_checkpoint_is_kept(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    keep(home, _plan(home, _current()))
    _start(home, "clean", 1)
    second = _plan(home, _current(BY_NAME, version=2))
    assert second.versions == {"clean": 2}
    keep(home, second)
    _start(home, "clean", 2)
    kept = read_kept(home)
    assert kept is not None
    assert [(one.checkpoint_version, one.pipeline_version) for one in kept.queries["clean"]] == [(1, 1), (2, 2)]
    keep(home, _plan(home, _current(BY_NAME, version=3)))
    assert _plan(home, _current(BY_NAME, version=3)).versions == {"clean": 2}
    assert _plan(home, _current(version=1)).versions == {"clean": 1}


def test_state_of_real_time_mode_counts_and_the_alerts_process_is_reported_its_version(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    alert = "outlet-alert-hot"

    def current(operator: Operator, version: int) -> Current:
        return Current(version=version, queries={alert: Signature(kind="outlet", reads=("a",), state=(operator,))})

    def start(version: int) -> None:
        checkpoint = home.realtime_checkpoint(alert, version)
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata").write_text("{}")

    assert kept_versions(home, 1) == {}
    keep(home, _plan(home, current(BY_ID, 1)))
    start(1)
    assert _plan(home, current(BY_NAME, 1)).queries[alert].action == "refuse"
    keep(home, _plan(home, current(BY_NAME, 2)))
    start(2)

    assert kept_versions(home, 2) == {alert: 2}
    keep(home, _plan(home, current(BY_ID, 1)))
    assert kept_versions(home, 1) == {alert: 1}, "the old state is gone back to"


def test_keeping_one_query_leaves_the_others(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    both = Current(version=1, queries={**_current().queries, "outlet-x": Signature(kind="outlet", reads=("a",))})
    keep(home, _plan(home, both))
    for name in both.queries:
        _start(home, name, 1)
    plan = _plan(home, both)
    keep(home, Plan({"clean": plan.queries["clean"]}, both))
    assert {one.action for one in _plan(home, both).queries.values()} == {"reuse"}


def test_what_was_added_in_a_version_does_not_go_back_with_the_offsets_of_its_topics(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    reader = Signature(kind="outlet", reads=("city.clean",), upstream=("clean",))

    def run(plan: Plan) -> dict[str, str]:
        keep(home, plan)
        for name, version in plan.versions.items():
            if not home.checkpoint(name, version).exists():
                _start(home, name, version)
        return {name: one.action for name, one in plan.queries.items()}

    def with_reader(current: Current) -> Plan:
        return _plan(home, current.model_copy(update={"queries": {**current.queries, "outlet-x": reader}}))

    run(_plan(home, _current()))
    assert run(with_reader(_current(BY_NAME, version=2))) == {"clean": "new version", "outlet-x": "new"}
    again = with_reader(_current(BY_NAME, version=2))
    keep(home, Plan({"outlet-x": again.queries["outlet-x"]}, again.current))
    back = with_reader(_current(version=1))
    assert back.queries["clean"].action == "reuse"
    assert back.refused["outlet-x"].reasons == ("it read version 2 of clean and would now read version 1",)
    assert run(_plan(home, _current(version=1))) == {"clean": "reuse"}
    assert run(with_reader(_current(BY_NAME, version=3))) == {"clean": "reuse", "outlet-x": "reuse"}


def test_a_damaged_file_is_reported_and_not_taken_for_none(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    home.folder.mkdir()
    home.plan_file.write_text('{"pipeline": "city", "queries": 7}')
    with pytest.raises(ClientError, match=r"plan\.json cannot be understood"):
        read_kept(home)


def test_a_refusal_says_all_that_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path, "city")
    keep(home, _plan(home, _current()))
    _start(home, "clean", 1)
    refused = Refused(_plan(home, _current(BY_NAME)).refused)
    assert str(refused).splitlines()[1] == (
        "clean: deduplication: key id (string) is gone; deduplication: key name (string) is new. "
        "Set the pipeline's version to 2, and it starts from scratch beside the old one; or take the change back."
    )
