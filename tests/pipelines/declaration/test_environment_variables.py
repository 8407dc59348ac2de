"""`${NAME}` is the value of a variable wherever a pipeline has an address: of brokers, of their settings, of a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.addresses import broker_settings, brokers
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.execution.rows.decoding import decoding_options


def specification(**given: Any) -> PipelineSpecification:
    source = {"topic": "reports", "format": "avro", "registry": "https://crew:${PASSWORD}@registry"}
    return PipelineSpecification.model_validate({"pipeline": "city", "sources": {"reports": source}} | given)


def test_the_variables_are_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "one.example")
    monkeypatch.setenv("PASSWORD", "wonder-land")
    declared = specification(servers="${HOST}:9092,two:9092", kafka={"sasl.password": "${PASSWORD}"})

    assert brokers(declared) == "one.example:9092,two:9092"
    assert brokers(declared, "three:9092") == "three:9092"
    assert broker_settings(declared) == {"sasl.password": "wonder-land"}
    options = decoding_options(declared.sources["reports"], Path())
    assert options["schemaRegistry"] == "https://crew:wonder-land@registry"


def test_one_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOST", raising=False)
    with pytest.raises(SettingsError, match="the environment variable HOST is not set"):
        brokers(specification(servers="${HOST}:9092"))
