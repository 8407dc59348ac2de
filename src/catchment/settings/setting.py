"""The definition of one setting: name, kind, default, bounds and documentation, and how its text is parsed.

Names, kinds, defaults and bounds are Kafka's wherever Kafka has the setting, because people search for those names and
tools read them from DescribeConfigs. The definitions themselves are in `catchment.settings.definitions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from math import isfinite
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None


class InvalidSetting(ValueError):
    """An invalid setting. The message names the setting, its value and what is valid."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name


class UnknownSetting(InvalidSetting):
    """A name without a definition. The message suggests the most similar name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        ValueError.__init__(self, f"Unknown configuration {name}.{suggestion(name, known)}")
        self.name = name


class Kind(StrEnum):
    """The kind of a value. The names are those of Kafka's documentation."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class UpdateMode(StrEnum):
    """Whether a broker setting is dynamic (KIP-226), for one broker or for all."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


_JAVA_PLAIN: Final = (1e-3, 1e7)
"""Between these, Java writes a floating-point number without an exponent."""
_BITS: Final = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


class Bounds(NamedTuple):
    """Inclusive bounds for a number, and single values that are valid besides."""

    lowest: float
    highest: float | None = None
    besides: tuple[int, ...] = ()

    def complaint(self, value: Value) -> str | None:
        if not isinstance(value, int | float) or value in self.besides:
            return None
        exceptions = "".join([f" or equal to {exception}" for exception in self.besides])
        if value < self.lowest:
            return f"Value must be at least {self.lowest}{exceptions}"
        if self.highest is not None and value > self.highest:
            return f"Value must be no more than {self.highest}{exceptions}"
        return None

    def __str__(self) -> str:
        reach = f"at least {self.lowest}" if self.highest is None else f"{self.lowest} to {self.highest}"
        return " or ".join([reach, *map(str, self.besides)])


class Choices(NamedTuple):
    """The values that a string, or each member of a list, may have."""

    words: tuple[str, ...]

    def complaint(self, value: Value) -> str | None:
        if isinstance(value, str):
            value = (value,)
        if isinstance(value, tuple) and not set(value) <= set(self.words):
            return f"String must be one of: {self}"
        return None

    def __str__(self) -> str:
        return ", ".join(self.words)


class Pattern(NamedTuple):
    """A form that each member of a list must have."""

    expression: str
    form: str

    def complaint(self, value: Value) -> str | None:
        members = value if isinstance(value, tuple) else ()
        for member in members:
            if not re.fullmatch(self.expression, member):
                return f"'{member}' must have the form {self.form}"
        return None

    def __str__(self) -> str:
        return self.form


Validator = Bounds | Choices | Pattern


class Setting(NamedTuple):
    """One setting. An `internal` one is accepted but not described."""

    name: str
    kind: Kind
    default: Value
    documentation: str
    validator: Validator | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    def parse(self, text: str) -> Value:
        """The typed value of a text. Raises InvalidSetting."""
        value = self._convert(text.strip())
        complaint = self.validator.complaint(value) if self.validator else None
        if complaint:
            raise InvalidSetting(self.name, text.strip(), complaint)
        return value

    def render(self, value: Value) -> str | None:
        """The text of a value as Kafka writes it, the inverse of `parse`."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return _java_double(value)
        return None if value is None else str(value)

    def _convert(self, text: str) -> Value:
        if self.kind is Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise InvalidSetting(self.name, text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.kind in _BITS:
            limit = 1 << (_BITS[self.kind] - 1)
            whole = _number(int, text)
            if whole is None or not -limit <= whole < limit:
                raise InvalidSetting(self.name, text, f"Not a number of type {self.kind.upper()}")
            return int(whole)
        if self.kind is Kind.DOUBLE:
            number = _number(float, text)
            if number is None or not isfinite(number):
                raise InvalidSetting(self.name, text, "Not a number of type DOUBLE")
            return number
        if self.kind is Kind.LIST:
            return tuple([member.strip() for member in text.split(",")]) if text else ()
        return text


class Definitions(Mapping[str, Setting]):
    """Settings by name."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self._settings = {setting.name: setting for setting in settings}

    def __getitem__(self, name: str) -> Setting:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def require(self, name: str) -> Setting:
        """The setting. Raises UnknownSetting with a suggestion."""
        setting = self._settings.get(name)
        if setting is None:
            raise UnknownSetting(name, self._settings)
        return setting


def _number(convert: Callable[[str], float], text: str) -> float | None:
    """A number as Java parses it: Python also accepts non-ASCII digits, and underscores."""
    if not text.isascii() or "_" in text:
        return None
    try:
        return convert(text)
    except ValueError:
        return None


def _java_double(value: float) -> str:
    """A floating-point number as Java writes it: 1.0E10 for 1e+10."""
    if value == 0 or _JAVA_PLAIN[0] <= abs(value) < _JAVA_PLAIN[1]:
        return str(value)
    texts = (f"{value:.{precision}e}" for precision in range(1, 17))
    digits, exponent = next(text for text in texts if float(text) == value).split("e")
    return f"{digits}E{int(exponent)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the most similar name, or an empty string."""
    # Imported only when a name is wrong, because it slows the startup.
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=1, cutoff=0.75)
    return f" Did you mean {nearest[0]}?" if nearest else ""
