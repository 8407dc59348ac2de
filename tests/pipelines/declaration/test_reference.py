"""Every key of every declaration is in the reference, and every key in the reference can be declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from catchment.pipelines.declaration.specification import (
    Alert,
    Check,
    LakeSink,
    Mail,
    PipelineSpecification,
    Source,
    Stage,
    StageTopic,
    StoreSink,
    Table,
    TopicOut,
    TopicSink,
    Webhook,
)
from catchment.pipelines.declaration.yaml_form import TESTS

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "pipelines.md"
_SECTION = re.compile(r"^#+ (.+)$", re.MULTILINE)
_KEY = re.compile(r"^\| `(\w+)` \| ([^|]*)\|", re.MULTILINE)
_DECLARATIONS: dict[str, tuple[type[BaseModel], ...]] = {
    "Pipeline": (PipelineSpecification,),
    "Source": (Source,),
    "Table": (Table,),
    "Stage": (Stage,),
    "Check": (Check,),
    "Topic that is written": (StageTopic,),
    "Store": (StoreSink,),
    "Lake": (LakeSink,),
    "Topic": (TopicSink,),
    "Alert": (Alert, TopicOut, Webhook, Mail),
}


def _sections() -> dict[str, str]:
    parts = _SECTION.split(REFERENCE.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _keys(declaration: type[BaseModel]) -> dict[str, bool]:
    """The keys, and whether each must be given."""
    return {field.alias or name: field.is_required() for name, field in declaration.model_fields.items()}


@pytest.mark.parametrize("section", _DECLARATIONS)
def test_every_key_is_documented_and_no_other(section: str) -> None:
    documented = [name for name, _ in _KEY.findall(_sections()[section])]
    declared = {name for declaration in _DECLARATIONS[section] for name in _keys(declaration)}
    if section == "Pipeline":
        declared.add(TESTS)
    if section == "Alert":
        # What a topic of an alert has beside its name is reported in its line.
        declared -= {"partitions"}
    assert set(documented) == declared
    assert len(documented) == len(set(documented))


@pytest.mark.parametrize("section", _DECLARATIONS)
def test_a_key_that_must_be_given_has_no_default(section: str) -> None:
    defaults = dict(_KEY.findall(_sections()[section]))
    required = {name for name, is_required in _keys(_DECLARATIONS[section][0]).items() if is_required}
    # SQL says by itself what it reads.
    assert [name for name in sorted(required - {"from"}) if defaults[name].strip()] == []


def test_every_setting_of_spark_s_is_documented_and_no_other() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
    from catchment.pipelines.execution.session import SETTINGS

    documented = dict(re.findall(r"^\| `(spark\.[\w.]+)` \| `([^`]+)`", _sections()["Spark's settings"], re.MULTILINE))

    assert documented == dict(SETTINGS) | {"spark.sql.shuffle.partitions": "parallelism"}
