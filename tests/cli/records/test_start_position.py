"""Where `--from` begins, as people write it."""

import pytest

from catchment.cli.records.start_position import StartPosition


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-05-01T12:00:00Z", 1_777_636_800_000),
        ("2026-05-01T12:00:00", 1_777_636_800_000),
        ("2026-05-01T14:00:00+02:00", 1_777_636_800_000),
        ("2026-05-01T12:00:00.001Z", 1_777_636_800_001),
        ("2026-05-01T12:00:00.000001Z", 1_777_636_800_001),
        ("1969-12-31T23:59:59Z", 0),
        ("@12", 12),
        ("2s", 8_000),
    ],
)
def test_a_moment_begins_with_the_first_millisecond_that_is_not_before_it(text: str, timestamp_ms: int) -> None:
    assert StartPosition.parse(text, now_ms=10_000) == StartPosition(timestamp_ms=timestamp_ms)
