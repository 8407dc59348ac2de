"""kcat's letters, written as kcat writes them."""

import pytest
from confluent_kafka import Message

from catchment.cli.records.format_string import FormatStringError, compile_format


@pytest.fixture
def message() -> Message:
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("b", None)]
    return Message("orders", 3, 42, b"key", b"val\xff", headers, None, (1, 1_700_000_000_123))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s", b"val\xff"),
        ("%t/%p@%o", b"orders/3@42"),
        ("%T %k %K %S", b"1700000000123 key 3 4"),
        ("%h", b"a=1,b="),
        (r"100%%\t\n\x41\\", b"100%\t\nA\\"),
        ("", b""),
        ("→%s", "→".encode() + b"val\xff"),
    ],
)
def test_a_format_writes_what_it_says(message: Message, text: str, expected: bytes) -> None:
    assert compile_format(text)(message) == expected


def test_null_is_written_as_nothing_and_has_length_minus_one() -> None:
    message = Message("t", 0, 0, None, None, None, None, (0, -1))

    assert compile_format("[%k|%s|%K|%S|%h|%T]")(message) == b"[||-1|-1||-1]"


@pytest.mark.parametrize("text", ["%x", "50%", r"\q", "\\"])
def test_an_invalid_format_is_rejected(text: str) -> None:
    with pytest.raises(FormatStringError):
        compile_format(text)
