"""The levels of the broker's loggers through the APIs for settings (KIP-412)."""

import logging
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.config_requests import Step, start_client

from catchment.broker.handlers.incremental_alter_configs import Operation

LOGGER = 8
NAME = "catchment.broker.network.routing"
SET, DELETE, APPEND, SUBTRACT = Operation
OK = (ErrorCode.none, None)


@pytest.fixture(autouse=True)
def _levels_as_they_were() -> Iterator[None]:
    loggers = [logging.getLogger(NAME), logging.getLogger("catchment")]
    before = [logger.level for logger in loggers]
    loggers[0].setLevel(logging.NOTSET)
    loggers[1].setLevel(logging.INFO)
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def test_loggers_are_described_with_the_level_that_applies() -> None:
    client = await start_client()
    result = await client.describe(LOGGER, "1")
    described = {config.name: config for config in result.configs}
    assert described["root"].value == described[NAME].value == "INFO"
    assert (described[NAME].config_source, described[NAME].read_only) == (6, False)


async def test_a_level_takes_effect_at_once_and_can_be_taken_back() -> None:
    client = await start_client()
    assert await client.incremental(LOGGER, "1", (NAME, SET, "DEBUG")) == OK
    assert logging.getLogger(NAME).level == logging.DEBUG
    assert await client.value(LOGGER, "1", NAME) == "DEBUG"
    assert await client.incremental(LOGGER, "1", ("root", SET, "ERROR"), (NAME, DELETE, None)) == OK
    assert logging.getLogger(NAME).getEffectiveLevel() == logging.ERROR


async def test_validate_only_changes_no_level() -> None:
    client = await start_client()
    assert await client.incremental(LOGGER, "1", (NAME, SET, "DEBUG"), validate_only=True) == OK
    assert logging.getLogger(NAME).level == logging.NOTSET


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (("no.such.logger", SET, "INFO"), ErrorCode.invalid_config),
        ((NAME, SET, "LOUD"), ErrorCode.invalid_config),
        ((NAME, APPEND, "INFO"), ErrorCode.invalid_config),
        (("root", DELETE, None), ErrorCode.invalid_request),
    ],
)
async def test_what_makes_no_sense_is_rejected(step: Step, code: ErrorCode) -> None:
    client = await start_client()
    assert (await client.incremental(LOGGER, "1", step))[0] == code


async def test_levels_are_not_replaced_as_a_whole() -> None:
    client = await start_client()
    assert (await client.alter(LOGGER, "1", (NAME, "DEBUG")))[0] == ErrorCode.invalid_request
