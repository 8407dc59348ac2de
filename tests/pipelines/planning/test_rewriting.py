"""No query writes rows to a place where they have been written before, whatever its name is by then."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from catchment.client.errors import ClientError
from catchment.pipelines.declaration.specification import LakeSink, StoreSink
from catchment.pipelines.home import Home
from catchment.pipelines.planning import Current, Plan, Signature, compare, keep, kept_with_checkpoints
from catchment.pipelines.planning.signature import Target
from catchment.pipelines.planning.signing import sink_target

COLUMNS = {"id": "string"}


def clean(topic: str = "city.clean", reads: str = "reports") -> Signature:
    target = Target(name=f"topic {topic}", place=topic, stage="clean", has_versions=True)
    return Signature(kind="intake", reads=(reads,), columns=COLUMNS, target=target)


def sink(place: str, stage: str = "clean", *, is_table: bool = False) -> Signature:
    name = f"table {place}" if is_table else f"lake {place}"
    target = Target(name=name, place=place, stage=stage, has_versions=is_table)
    return Signature(kind="outlet", reads=("city.clean",), upstream=("clean",), columns=COLUMNS, target=target)


@dataclass(frozen=True)
class Past:
    """A pipeline that has run, with sinks by name."""

    home: Home

    def plan(
        self,
        sinks: dict[str, Signature],
        version: int = 1,
        *,
        source_stage: str = "clean",
        above: Signature | None = None,
    ) -> Plan:
        upstream = {"upstream": (source_stage,)}
        queries = {f"outlet-{name}": one.model_copy(update=upstream) for name, one in sinks.items()}
        current = Current(version=version, queries={source_stage: above or clean(), **queries})
        return compare(kept_with_checkpoints(self.home), current)

    def run(self, sinks: dict[str, Signature], version: int = 1, *, above: Signature | None = None) -> dict[str, str]:
        plan = self.plan(sinks, version, above=above)
        assert not plan.refused
        keep(self.home, plan)
        for query, number in plan.versions.items():
            checkpoint = self.home.checkpoint(query, number)
            checkpoint.mkdir(parents=True, exist_ok=True)
            (checkpoint / "metadata").write_text("{}")
        return {name: one.action for name, one in plan.queries.items()}


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(Home(tmp_path, "city"))


@pytest.mark.parametrize("is_table", [False, True])
def test_a_sink_under_another_name_is_refused_with_the_name_that_it_had(past: Past, is_table: bool) -> None:
    history = sink("reports", is_table=is_table)
    past.run({"old": history})
    plan = past.plan({"new": history})
    assert list(plan.refused) == ["outlet-new"]
    decision = plan.refused["outlet-new"]
    kind = "table" if is_table else "lake"
    assert decision.reasons == (
        f"starting from scratch, it would write every row a second time to {kind} reports, as outlet-old did",
    )
    assert decision.remedy == (
        "If it is outlet-old under another name, give it back its name (`name: old`); "
        "if not, give it another place to write to."
    )
    assert list(past.plan({"new": history}, 2).refused) == ["outlet-new"], "a higher version changes nothing"
    assert past.run({"old": history})["outlet-old"] == "reuse"


def test_a_sink_that_is_put_above_and_takes_the_name_of_another_is_refused(past: Past) -> None:
    past.run({"lake": sink("reports")})
    plan = past.plan({"lake": sink("other"), "lake-2": sink("reports")})
    assert list(plan.refused) == ["outlet-lake-2"]
    assert "(`name: lake`)" in str(plan.refused["outlet-lake-2"].remedy)
    assert past.run({"lake": sink("reports"), "lake-2": sink("other")}) == {
        "clean": "reuse",
        "outlet-lake": "reuse",
        "outlet-lake-2": "new",
    }


def test_sinks_that_change_places_are_refused(past: Past) -> None:
    past.run({"a": sink("a"), "b": sink("b")})
    plan = past.plan({"a": sink("b"), "b": sink("a")})
    assert list(plan.refused) == ["outlet-a", "outlet-b"]
    assert plan.refused["outlet-a"].reasons == (
        "it would go on at lake b, where outlet-b wrote: rows would be there twice, or be missing",
    )
    assert "(`name: b`)" in str(plan.refused["outlet-a"].remedy)


def test_a_sink_may_move_to_an_empty_target_and_no_other_may_follow_it(past: Past) -> None:
    past.run({"lake": sink("a")})
    assert past.run({"lake": sink("b")})["outlet-lake"] == "reuse"
    assert past.run({"lake": sink("c")})["outlet-lake"] == "reuse"
    for place in "abc":
        assert list(past.plan({"lake": sink("d"), "new": sink(place)}).refused) == ["outlet-new"]
    assert past.run({"lake": sink("a")})["outlet-lake"] == "reuse", "it wrote there itself, and each row once"


def test_a_lake_of_any_earlier_version_is_not_written_again(past: Past) -> None:
    other = clean(reads="more")
    past.run({"lake": sink("a")}, 1)
    assert past.run({"lake": sink("b")}, 2, above=other)["outlet-lake"] == "new version"
    third = past.plan({"lake": sink("a")}, 3, above=clean(reads="most"))
    assert "a second time to lake a" in third.refused["outlet-lake"].reasons[-1]
    assert third.refused["outlet-lake"].remedy == "Give outlet-lake another place to write to, or take the change back."
    assert list(past.plan({"lake": sink("b")}, 1).refused) == ["outlet-lake"], "version 2 is further there"
    assert not past.plan({"lake": sink("a")}, 1).refused


def test_a_table_has_versions_of_its_own_for_the_same_sink(past: Past) -> None:
    past.run({"board": sink("board", is_table=True)}, 1)
    newer = past.run({"board": sink("board", is_table=True)}, 2, above=clean(reads="more"))
    assert newer["outlet-board"] == "new version"


def test_sinks_of_several_stages_may_share_a_place_and_one_stage_is_there_once(past: Past) -> None:
    past.run({"fires": sink("dispatch", "fires")})
    both = {"fires": sink("dispatch", "fires"), "floods": sink("dispatch", "floods")}
    assert list(past.plan({"fires": both["fires"], "more": sink("dispatch", "fires")}).refused) == ["outlet-more"]
    assert past.run(both)["outlet-floods"] == "new"
    assert past.run(both)["outlet-floods"] == "reuse"
    turned = {"fires": sink("dispatch", "floods"), "all": sink("dispatch", "fires")}
    assert list(past.plan(turned).refused) == ["outlet-all"]


def test_a_stage_under_another_name_does_not_write_its_topic_again(past: Past) -> None:
    past.run({"lake": sink("a")})
    plan = past.plan({"lake": sink("a")}, source_stage="tidy")
    assert list(plan.refused) == ["tidy"]
    assert str(plan.refused["tidy"].remedy).startswith(
        "If it is clean under another name, give it back its name, clean;"
    )


def test_a_target_may_be_filled_again_when_the_checkpoint_of_its_writer_is_gone(past: Past) -> None:
    past.run({"old": sink("a")})
    (past.home.checkpoint("outlet-old", 1) / "metadata").unlink()
    assert past.run({"new": sink("a")})["outlet-new"] == "new"


def test_a_place_is_the_same_however_it_is_written_and_is_kept_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKES", str(tmp_path / "lakes"))
    monkeypatch.setenv("CITY", "postgresql://ann:secret@db/city")

    def lake(path: str) -> Target:
        return sink_target(LakeSink.model_validate({"from": "clean", "lake": path}), tmp_path)

    def table(address: str, name: str = "board") -> Target:
        return sink_target(StoreSink.model_validate({"from": "board", "store": address, "table": name}), tmp_path)

    written = ["lakes/reports", "./lakes/reports/", f"{tmp_path}/lakes/reports", "${LAKES}/reports"]
    assert len({lake(one).place for one in written}) == 1
    assert lake("lakes/other").place != lake("lakes/reports").place
    assert lake("${NOT_SET}/reports").name == "lake ${NOT_SET}/reports"
    tables = [table(one) for one in ("${CITY}", "postgresql://bob:other@db/city")]
    assert [one.name for one in tables] == ["table board of ${CITY}", "table board of postgresql://db/city"]
    assert tables[0].place == tables[1].place != table("${CITY}", "more").place
    assert "secret" not in tables[0].place


def test_notes_that_do_not_say_where_a_sink_wrote_are_not_taken_for_notes_of_another(past: Past) -> None:
    past.run({"old": sink("a", is_table=True)})
    file = past.home.plan_file
    kept = json.loads(file.read_text())
    del kept["queries"]["outlet-old"][0]["signature"]["target"]
    file.write_text(json.dumps(kept))
    with pytest.raises(ClientError, match="cannot be understood"):
        kept_with_checkpoints(past.home)
