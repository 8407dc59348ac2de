"""Definitions of settings: parsing, bounds, and messages that say what to do."""

import pytest

from catchment.settings.setting import (
    Bounds,
    Choices,
    Definitions,
    InvalidSetting,
    Kind,
    Pattern,
    Setting,
    UnknownSetting,
    Value,
)


def setting(kind: Kind, validator: Bounds | Choices | Pattern | None = None) -> Setting:
    return Setting("a.name", kind, None, "What it does.", validator)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, " TRUE ", True),
        (Kind.BOOLEAN, "false", False),
        (Kind.INT, "-7", -7),
        (Kind.INT, "+7", 7),
        (Kind.SHORT, "32767", 32767),
        (Kind.LONG, "9223372036854775807", 2**63 - 1),
        (Kind.DOUBLE, ".5", 0.5),
        (Kind.DOUBLE, "1e3", 1000.0),
        (Kind.LIST, "a, b ,c", ("a", "b", "c")),
        (Kind.LIST, "", ()),
        (Kind.STRING, " word ", "word"),
        (Kind.PASSWORD, "secret", "secret"),
    ],
)
def test_a_text_becomes_a_value_of_its_kind(kind: Kind, text: str, value: Value) -> None:
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.INT, "2147483648"),
        (Kind.INT, "1_000"),
        (Kind.INT, "٣"),
        (Kind.INT, "1.5"),
        (Kind.INT, ""),
        (Kind.SHORT, "32768"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.LONG, "9" * 5000),
        (Kind.DOUBLE, "nan"),
        (Kind.DOUBLE, "half"),
    ],
)
def test_a_text_of_another_kind_is_rejected_by_name(kind: Kind, text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"for configuration a\.name: "):
        setting(kind).parse(text)


@pytest.mark.parametrize("value", [True, 5, 0.25, ("a", "b"), (), "word"])
def test_parse_is_the_inverse_of_render(value: Value) -> None:
    kinds = {bool: Kind.BOOLEAN, int: Kind.LONG, float: Kind.DOUBLE, tuple: Kind.LIST, str: Kind.STRING}
    one = setting(kinds[type(value)])
    text = one.render(value)
    assert text is not None
    assert one.parse(text) == value


def test_a_number_one_past_its_bounds_is_rejected_with_the_bound() -> None:
    bounded = setting(Kind.INT, Bounds(1, 9, besides=(-1,)))
    assert [bounded.parse(text) for text in ("1", "9", "-1")] == [1, 9, -1]
    with pytest.raises(InvalidSetting, match="at least 1 or equal to -1"):
        bounded.parse("0")
    with pytest.raises(InvalidSetting, match="no more than 9 or equal to -1"):
        bounded.parse("10")


def test_a_value_that_is_not_a_choice_is_rejected_with_the_choices() -> None:
    for kind, text in ((Kind.STRING, "c"), (Kind.LIST, "a,c")):
        with pytest.raises(InvalidSetting, match="String must be one of: a, b"):
            setting(kind, Choices(("a", "b"))).parse(text)
    assert setting(Kind.LIST, Choices(("a", "b"))).parse("") == ()


def test_a_list_member_must_have_its_form() -> None:
    one = setting(Kind.LIST, Pattern(r"[0-9]+:[0-9]+", "partition:broker"))
    assert one.parse("1:2,3:4") == ("1:2", "3:4")
    with pytest.raises(InvalidSetting, match="'x' must have the form partition:broker"):
        one.parse("1:2,x")


def test_a_name_that_does_not_exist_causes_a_suggestion() -> None:
    definitions = Definitions([Setting("num.partitions", Kind.INT, 1, "Partitions.")])
    assert definitions.require("num.partitions").default == 1
    with pytest.raises(UnknownSetting, match=r"num\.partitons\. Did you mean num\.partitions\?"):
        definitions.require("num.partitons")
    with pytest.raises(UnknownSetting, match=r"colour\.$"):
        definitions.require("colour")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1e-4, "1.0E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    setting = Setting("ratio", Kind.DOUBLE, None, "")
    assert setting.render(value) == text
    assert setting.parse(text) == value
