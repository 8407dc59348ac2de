"""Log lines: both formats have the same fields."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from catchment.ports.log_lines import configure_logging


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("catchment")
    before = (logger.handlers, logger.level, logger.propagate)
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def logged(line_format: str) -> str:
    stream = io.StringIO()
    configure_logging(line_format, stream=stream)
    logger = logging.getLogger("catchment.somewhere")
    logger.debug("not shown")
    logger.warning("opened %d logs", 3, extra={"topic": "a topic", "partition": 0})
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("failed")
    return stream.getvalue()


def test_text_lines_have_the_fields_after_the_message() -> None:
    first, second, *trace = logged("text").splitlines()
    assert first.endswith('Z WARNING catchment.somewhere opened 3 logs topic="a topic" partition=0')
    assert second.endswith("ERROR catchment.somewhere failed")
    assert trace[-1] == "ValueError: broken"


def test_json_lines_are_one_object_each() -> None:
    first, second = map(json.loads, logged("json").splitlines())
    assert first["message"] == "opened 3 logs"
    assert (first["level"], first["topic"], first["partition"]) == ("WARNING", "a topic", 0)
    assert first["time"].endswith("Z")
    assert "ValueError: broken" in second["exception"]


def test_configuring_again_replaces_the_previous_stream() -> None:
    before = io.StringIO()
    configure_logging(stream=before)
    assert "opened" in logged("text")
    assert before.getvalue() == ""
