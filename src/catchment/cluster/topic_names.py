"""Which names a topic may have: Kafka's rules, because the name is also a directory's and a metric's."""

import re

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless a topic may bear this name."""
    reason = _objection(name)
    if reason is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")


def _objection(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' and '..' are not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name[:MAX_LENGTH]}…' is longer than the max allowed length {MAX_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Equal for names that metrics cannot tell apart: in those, a period becomes an underscore."""
    return name.replace(".", "_")
