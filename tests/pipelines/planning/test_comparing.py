"""The decision on each query when a pipeline that has state is changed."""

from __future__ import annotations

from typing import Any

import pytest

from catchment.pipelines.planning import Current, Kept, Operator, Part, Plan, Signature, compare
from catchment.pipelines.planning.signature import Made, Target

_KEYS = (Part(name="key district", what="string"), Part(name="key window", what="of at, 10 seconds"))
_COUNT = Part(name="aggregate count(1)", what="bigint")


def _state(*parts: Part, kind: str = "aggregation") -> tuple[Operator, ...]:
    return (Operator(kind=kind, parts=parts or (*_KEYS, _COUNT)),)


CLEAN = Signature(
    kind="intake",
    reads=("reports",),
    state=_state(Part(name="key id", what="string"), kind="deduplication"),
    uses=("id",),
    columns={"id": "string", "district": "string", "kind": "string", "at": "timestamp"},
    event_time="at",
    lateness_ms=20_000,
)
BOARD = Signature(
    kind="outlet",
    reads=("reports.clean",),
    upstream=("clean",),
    mode="update",
    state=_state(),
    uses=("at", "district"),
    columns={"district": "string", "count": "bigint"},
    target=Target(name="table board", place="board", stage="board", has_versions=True),
)
HISTORY = Target(name="lake lake/reports", place="reports", stage="clean", has_versions=False)
LAKE = Signature(kind="outlet", reads=("reports.clean",), upstream=("clean",), columns=CLEAN.columns, target=HISTORY)
QUERIES = {"clean": CLEAN, "outlet-board": BOARD, "outlet-lake": LAKE}


def _kept(plan: Plan, before: Kept | None = None) -> Kept:
    """What a run of a plan leaves behind."""
    queries = dict(before.queries) if before else {}
    for name, decision in plan.queries.items():
        made = [one for one in queries.get(name, ()) if one.checkpoint_version != decision.version]
        queries[name] = (
            *made,
            Made(
                checkpoint_version=decision.version,
                pipeline_version=plan.current.version,
                signature=plan.current.queries[name],
            ),
        )
    return Kept(pipeline="city", queries=queries)


def _first(version: int = 1) -> Kept:
    return _kept(compare(None, Current(version=version, queries=QUERIES)))


def _changed(version: int = 1, **changes: Signature) -> Plan:
    queries = QUERIES | {name.replace("_", "-"): one for name, one in changes.items()}
    return compare(_first(), Current(version=version, queries=queries))


def _with(signature: Signature, **changes: Any) -> Signature:
    return signature.model_copy(update=changes)


def _elsewhere(place: str) -> Target:
    return HISTORY.model_copy(update={"place": place})


def _actions(plan: Plan) -> list[str]:
    return [one.action for one in plan.queries.values()]


def test_a_pipeline_that_never_ran_is_new_in_its_first_version_whatever_its_number() -> None:
    plan = compare(None, Current(version=7, queries=QUERIES))
    assert _actions(plan) == ["new", "new", "new"]
    assert set(plan.versions.values()) == {1}


def test_what_has_not_changed_is_reused() -> None:
    assert _actions(_changed()) == ["reuse", "reuse", "reuse"]
    assert _actions(_changed(version=2)) == ["reuse", "reuse", "reuse"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": _state(_KEYS[0], _COUNT)}, "aggregation: key window (of at, 10 seconds) is gone"),
        (
            {"state": _state(_KEYS[0], Part(name="key window", what="of at, 1 minute"), _COUNT)},
            "aggregation: key window was of at, 10 seconds and is of at, 1 minute",
        ),
        (
            {"state": _state(*_KEYS, _COUNT, Part(name="aggregate max(n)", what="int"))},
            "aggregation: aggregate max(n) (int) is new",
        ),
        ({"state": _state(_KEYS[1], _KEYS[0], _COUNT)}, "aggregation: the order was key district, key window"),
        ({"state": ()}, "its state was aggregation and is nothing"),
        ({"mode": "append"}, "its mode was update and is append"),
        ({"reads": ("reports.other",)}, "it read reports.clean and now reads reports.other"),
        ({"columns": {"district": "string", "count": "int"}}, "column count was bigint and is int"),
        (
            {"columns": {**BOARD.columns, "sure": "boolean"}, "required": ("count", "sure")},
            "column sure is new and never null, but older rows have no value for it",
        ),
        ({"columns": {"district": "string"}}, "column count is gone, which its table has"),
    ],
)
def test_a_change_that_state_does_not_bear_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    plan = _changed(outlet_board=_with(BOARD, **change))
    decision = plan.queries["outlet-board"]
    assert decision.action == "refuse"
    assert any(one.startswith(said) for one in decision.reasons)
    assert "version to 2" in str(decision.remedy)
    assert list(plan.refused) == ["outlet-board"]


@pytest.mark.parametrize(
    "change",
    [
        {"columns": {**BOARD.columns, "crew": "int"}, "required": ("count",)},
        {"columns": dict(reversed(BOARD.columns.items()))},
    ],
)
def test_a_column_may_be_added_or_moved(change: dict[str, Any]) -> None:
    assert _changed(outlet_board=_with(BOARD, **change)).queries["outlet-board"].action == "reuse"


def test_a_column_that_a_state_is_made_of_may_not_go_and_others_may() -> None:
    without_kind = {name: kind for name, kind in CLEAN.columns.items() if name != "kind"}
    assert _actions(_changed(clean=_with(CLEAN, columns=without_kind))) == ["reuse", "reuse", "reuse"]
    without_district = {name: kind for name, kind in CLEAN.columns.items() if name != "district"}
    refused = _changed(clean=_with(CLEAN, columns=without_district)).refused
    assert refused["clean"].reasons == ("column district is gone, which the state of outlet-board is made of",)


def test_more_lateness_is_allowed_and_less_is_not() -> None:
    assert _changed(clean=_with(CLEAN, lateness_ms=60_000)).queries["clean"].action == "reuse"
    less = _changed(clean=_with(CLEAN, lateness_ms=10_000)).queries["clean"]
    assert less.action == "refuse"
    assert less.reasons[0].startswith("its lateness was 20000 ms and is 10000 ms")


def test_another_event_time_is_refused() -> None:
    decision = _changed(clean=_with(CLEAN, event_time="sent")).queries["clean"]
    assert decision.action == "refuse"
    assert decision.reasons == ("its event time was at and is sent",)


def test_a_join_of_streams_keeps_whole_rows_so_its_columns_may_not_change() -> None:
    sides = (Part(name="kind", what="inner"), Part(name="left column id", what="string"))
    kept = _kept(
        compare(
            None, Current(version=1, queries={"both": _with(BOARD, upstream=(), state=_state(*sides, kind="join"))})
        )
    )
    more = _with(BOARD, upstream=(), state=_state(*sides, Part(name="left column n", what="int"), kind="join"))
    decision = compare(kept, Current(version=1, queries={"both": more})).queries["both"]
    assert decision.reasons == ("join: left column n (int) is new",)


def test_with_a_higher_version_only_what_changed_starts_from_scratch() -> None:
    plan = _changed(version=2, outlet_board=_with(BOARD, state=_state(_KEYS[0], _COUNT)))
    assert _actions(plan) == ["reuse", "new version", "reuse"]
    assert plan.versions == {"clean": 1, "outlet-board": 2, "outlet-lake": 1}


def test_what_reads_a_query_that_starts_from_scratch_starts_from_scratch() -> None:
    other = _with(CLEAN, state=_state(Part(name="key district", what="string"), kind="deduplication"))
    plan = _changed(version=2, clean=other, outlet_lake=_with(LAKE, target=_elsewhere("second")))
    assert _actions(plan) == ["new version", "new version", "new version"]
    assert plan.queries["outlet-board"].reasons == ("it reads clean, which starts from scratch",)


def test_a_lake_does_not_get_every_row_a_second_time() -> None:
    other = _with(CLEAN, state=_state(Part(name="key district", what="string"), kind="deduplication"))
    decision = _changed(version=2, clean=other).queries["outlet-lake"]
    assert decision.action == "refuse"
    assert decision.reasons[-1] == "starting from scratch, it would write every row a second time to lake lake/reports"
    assert decision.remedy == "Give outlet-lake another place to write to, or take the change back."


def test_a_second_change_needs_a_higher_version_again() -> None:
    second = _with(BOARD, state=_state(_KEYS[0], _COUNT))
    kept = _kept(_changed(version=2, outlet_board=second), _first())
    again = compare(kept, Current(version=2, queries=QUERIES | {"outlet-board": second}))
    assert _actions(again) == ["reuse", "reuse", "reuse"]
    third = QUERIES | {"outlet-board": _with(BOARD, state=_state(_COUNT))}
    assert compare(kept, Current(version=2, queries=third)).queries["outlet-board"].action == "refuse"
    assert compare(kept, Current(version=3, queries=third)).queries["outlet-board"].action == "new version"


def test_going_back_a_version_goes_back_to_its_state() -> None:
    second = _with(BOARD, state=_state(_KEYS[0], _COUNT))
    kept = _kept(_changed(version=2, outlet_board=second), _first())
    back = compare(kept, Current(version=1, queries=QUERIES))
    assert _actions(back) == ["reuse", "reuse", "reuse"]
    assert back.versions["outlet-board"] == 1


def test_a_query_that_is_added_later_is_new() -> None:
    more = QUERIES | {"outlet-more": _with(BOARD, target=_elsewhere("more"))}
    plan = compare(_first(), Current(version=1, queries=more))
    assert plan.queries["outlet-more"].action == "new"
    assert plan.versions["outlet-more"] == 1
