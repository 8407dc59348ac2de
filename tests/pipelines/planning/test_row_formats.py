"""What the topic of a stage holds is kept with its checkpoint: what is there goes on as it is, and what is new is Avro."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from catchment.pipelines.declaration.specification import RowFormat, WrittenRows
from catchment.pipelines.execution.rows.row_values import row_schema
from catchment.pipelines.home import Home
from catchment.pipelines.planning import Current, Plan, Signature, compare, keep, kept_with_checkpoints
from catchment.pipelines.planning.signature import Target

PLACE = Target(name="topic city.clean", place="one", stage="clean", has_versions=True)


def _schema(**columns: DataType) -> str:
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    return row_schema(schema)


ID = _schema(id=StringType())
WITH_KIND = _schema(id=StringType(), kind=StringType())
WITH_BYTES = _schema(id=StringType(), raw=BinaryType())


def _current(schema: str = ID, asked: RowFormat | None = None, version: int = 1) -> Current:
    names = json.loads(schema)["spark.schema"]["fields"]
    clean = Signature(
        kind="intake",
        reads=("events",),
        columns={one["name"]: one["type"] for one in names},
        target=PLACE,
        rows_as=asked,
        row_schema=schema,
    )
    return Current(version=version, queries={"clean": clean})


class _Run:
    """A pipeline of one stage, run again and again in one home."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder, "city")

    def plan(self, current: Current) -> Plan:
        return compare(kept_with_checkpoints(self.home), current)

    def run(self, current: Current) -> WrittenRows:
        plan = self.plan(current)
        assert not plan.refused, plan.refused
        keep(self.home, plan)
        checkpoint = self.home.checkpoint("clean", plan.versions["clean"])
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").touch()
        return plan.rows["clean"]

    def forget_formats(self) -> None:
        """As a Catchment without formats has written the plan."""
        kept = json.loads(self.home.plan_file.read_text())
        for made in kept["queries"]["clean"]:
            del made["earlier_schemas"], made["signature"]["rows_as"], made["signature"]["row_schema"]
        self.home.plan_file.write_text(json.dumps(kept))


@pytest.fixture
def runs(tmp_path: Path) -> _Run:
    return _Run(tmp_path)


def test_a_new_topic_holds_avro_unless_json_is_asked_for(tmp_path: Path) -> None:
    assert _Run(tmp_path / "avro").run(_current()).format == "avro"
    assert _Run(tmp_path / "json").run(_current(asked="json")).format == "json"


def test_a_topic_from_before_there_were_formats_goes_on_with_json(runs: _Run) -> None:
    runs.run(_current(asked="json"))
    runs.forget_formats()
    for _ in range(2):
        assert runs.run(_current()) == WrittenRows("json")
    assert runs.run(_current(WITH_KIND, asked="json")) == WrittenRows("json")
    assert runs.run(_current(version=2)) == WrittenRows("json"), "a higher version alone restarts nothing"


def test_every_schema_is_known_that_rows_in_the_topic_may_have(runs: _Run) -> None:
    assert runs.run(_current()).schemas == ()
    assert runs.run(_current(WITH_KIND)).schemas == (ID,)
    assert set(runs.run(_current(WITH_BYTES)).schemas) == {WITH_KIND, ID}
    assert set(runs.run(_current(ID)).schemas) == {WITH_BYTES, WITH_KIND, ID}
    assert len(runs.run(_current(ID)).schemas) == 3


@pytest.mark.parametrize(
    ("begun", "asked", "said"),
    [("avro", "json", "holds Avro, and JSON is asked for"), ("json", "avro", "holds JSON, and Avro is asked for")],
)
def test_another_format_takes_a_new_version_with_a_topic_of_its_own(
    runs: _Run, begun: RowFormat, asked: RowFormat, said: str
) -> None:
    runs.run(_current(asked=begun))
    decision = runs.plan(_current(asked=asked)).queries["clean"]
    assert decision.action == "refuse"
    assert said in decision.reasons[0]
    assert "version to 2" in str(decision.remedy)
    assert runs.plan(_current(asked=asked, version=2)).queries["clean"].action == "new version"
    assert runs.run(_current(asked=asked, version=2)) == WrittenRows(asked)


def test_a_column_that_json_does_not_carry_takes_a_new_version_in_avro(runs: _Run) -> None:
    runs.run(_current(asked="json"))
    runs.forget_formats()
    decision = runs.plan(_current(WITH_BYTES)).queries["clean"]
    assert (decision.action, decision.reasons) == (
        "refuse",
        ("its topic holds JSON, which does not carry column raw: it is of type binary",),
    )
    assert runs.run(_current(WITH_BYTES, version=2)) == WrittenRows("avro")
