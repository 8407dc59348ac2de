"""Which alerts real-time mode allows, told from the declaration: each rule broken once, and all at once."""

from __future__ import annotations

from typing import Any

import pytest

from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.realtime.eligibility import path_to, reasons_against

READINGS = {"topic": "readings", "schema": "host string, at timestamp, load double"}


def specification(
    *, alert: dict[str, Any] | None = None, source: dict[str, Any] | None = None, **stages: dict[str, Any]
) -> PipelineSpecification:
    declared = {
        "from": list(stages)[-1] if stages else "readings",
        "when": "load > 0.9",
        "key": "host",
        "to": {"topic": "out"},
    }
    return PipelineSpecification.model_validate(
        {
            "pipeline": "hosts",
            "sources": {"readings": {**READINGS, **(source or {})}, "others": READINGS},
            "tables": {"owners": {**READINGS, "key": "host"}},
            "stages": stages,
            "alerts": {"hot": {**declared, **(alert or {})}},
        }
    )


@pytest.mark.parametrize(
    "allowed",
    [
        specification(),
        specification(source={"format": "csv"}),
        specification(source={"format": "text", "schema": None}),
        specification(checked={"from": "readings", "checks": {"expect": "load >= 0"}}),
        specification(
            doubled={"from": "readings", "sql": "SELECT *, load * 2 AS twice FROM readings"},
            counted={
                "from": "doubled",
                "sql": "SELECT host, count(*) FROM doubled GROUP BY 1",
                "mode": "update",
                "key": "host",
            },
        ),
        specification(alert={"to": [{"webhook": "https://example.org"}, {"mail": "crew@example.org"}]}),
    ],
)
def test_what_spark_decodes_and_answers_row_by_row_is_allowed(allowed: PipelineSpecification) -> None:
    assert reasons_against(allowed, "hot") == []


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (specification(alert={"when": None, "absent_for": "5 minutes"}), "absent_for needs timers"),
        (specification(alert={"cooldown": "5 minutes"}), "cooldown needs the memory"),
        (specification(source={"format": "avro"}), "decoded from avro in Python"),
        (specification(source={"registry": "http://localhost:8081"}), "schema in a registry"),
        (specification(clean={"from": "readings", "dedupe": "host"}), "stage clean removes duplicates"),
        (
            specification(clean={"from": "readings", "checks": {"expect": "load >= 0", "otherwise": "stop"}}),
            "may stop the pipeline by `load >= 0`",
        ),
        (
            specification(clean={"from": "readings", "checks": {"expect": "load >= 0", "stop_above": "1%"}}),
            "may stop the pipeline by `load >= 0`",
        ),
        (
            specification(
                owned={"from": ["readings", "owners"], "sql": "SELECT * FROM readings JOIN owners USING (host)"}
            ),
            "stage owned joins owners: a table is read again",
        ),
        (
            specification(
                both={"from": ["readings", "others"], "sql": "SELECT 1"}, last={"from": "both", "sql": "SELECT 1"}
            ),
            "stage both reads several streams",
        ),
    ],
)
def test_each_reason_against_it_is_reported(refused: PipelineSpecification, reason: str) -> None:
    (told,) = reasons_against(refused, "hot")
    assert reason in told


def test_all_reasons_are_reported_at_once() -> None:
    refused = specification(
        alert={"cooldown": "1 minute"}, source={"format": "protobuf"}, clean={"from": "readings", "dedupe": "host"}
    )
    assert len(reasons_against(refused, "hot")) == 3


def test_the_path_leads_from_the_source_to_the_alert() -> None:
    path = path_to(specification(first={"from": "readings"}, second={"from": "first"}), "hot")
    assert path is not None
    assert (path.source_name, [name for name, _ in path.stages]) == ("readings", ["first", "second"])
