"""Java's properties format, as used for Kafka."""

from pathlib import Path

import pytest

from catchment.settings.properties_file import parse_properties, read_properties
from catchment.settings.setting import InvalidSetting


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb = 2\r\nc:3\nd 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# a=1\n! b=2\n\n   \n  # indented\nc=3", {"c": "3"}),
        ("listeners=A://:1,\\\n    B://:2", {"listeners": "A://:1,B://:2"}),
        ("path=C\\:\\\\dir\\\\\nnext=1", {"path": "C:\\dir\\", "next": "1"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("tab=x\\ty\nletter=\\u00e9", {"tab": "x\ty", "letter": "é"}),
        ("empty=\nalone", {"empty": "", "alone": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("equation=x=y:z", {"equation": "x=y:z"}),
        ("last=1\\", {"last": "1"}),
        ("comment=a # stays\\\n# also stays", {"comment": "a # stays# also stays"}),
    ],
)
def test_lines_become_properties(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=3\n")
    assert read_properties(file) == {"node.id": "3"}


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSetting, match="not UTF-8 text"):
        read_properties(file)
