"""What a client of a cluster is told when something does not work: what happened, to what, and what to do next.

All of it is a `ClientError`. What repeating can cure has been repeated before one of these is raised.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

_UNREACHABLE: Final = "Check that the broker is up and that its advertised.listeners can be reached from here."
_SLOW: Final = "Check that the broker is well, or allow more time."
_CREATE: Final = "Create it, or check its spelling."
_GRANT: Final = "Ask for access to it, or connect as another user with sasl.username and sasl.password."
_MEMBERS: Final = "Its members are still at work: stop them, or commit to another group."
_FENCED: Final = "Another producer has taken over its transactional id: give every producer an id of its own."
_LEADERLESS: Final = "Start the brokers that have its replicas."

_ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.unknown_topic_or_partition: _CREATE,
    ErrorCode.unknown_topic_id: _CREATE,
    ErrorCode.leader_not_available: _LEADERLESS,
    ErrorCode.topic_authorization_failed: _GRANT,
    ErrorCode.group_authorization_failed: _GRANT,
    ErrorCode.cluster_authorization_failed: _GRANT,
    ErrorCode.transactional_id_authorization_failed: _GRANT,
    ErrorCode.sasl_authentication_failed: "Check sasl.username and sasl.password.",
    ErrorCode.unsupported_sasl_mechanism: "Set sasl.mechanism to one that the listener offers.",
    ErrorCode.unknown_member_id: _MEMBERS,
    ErrorCode.producer_fenced: _FENCED,
    ErrorCode.invalid_producer_epoch: _FENCED,
    ErrorCode.message_too_large: "Raise max.message.bytes of the topic, or send smaller records.",
    ErrorCode.record_list_too_large: "Raise segment.bytes of the topic, or send smaller batches.",
}


class ClientError(Exception):
    """Whatever a client could not do."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(message, advice)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}. {self.advice}" if self.advice else self.message


class SettingsError(ClientError):
    """Settings that are wrong in themselves or for this cluster, so that no repetition helps."""


class RecordTooLarge(ClientError):
    """A record that does not fit into a batch by itself."""


class Unreachable(ClientError):
    """A connection that could not be made, or that was lost before the answer."""

    def __init__(self, message: str, advice: str | None = _UNREACHABLE) -> None:
        super().__init__(message, advice)


class NoSuchBroker(Unreachable):
    """A broker that the cluster does not name among its living ones."""


class TimedOut(ClientError):
    """An answer that did not come in time."""

    def __init__(self, message: str, advice: str | None = _SLOW) -> None:
        super().__init__(message, advice)


class BrokerError(ClientError):
    """An error code in a broker's answer."""

    def __init__(self, code: ErrorCode, message: str, advice: str | None = None) -> None:
        """`message` says what was tried on what, and may hold the broker's own words."""
        super().__init__(f"{message} ({code.name.upper()})", advice or _ADVICE.get(code))
        self.args = (code, message, advice)
        self.code = code


def raise_for(code: ErrorCode, subject: str, broker_message: str | None = None) -> None:
    """Raise what an error code says of `subject`, such as "cannot commit for group g"; nothing where there is no error."""
    if code is not ErrorCode.none:
        raise BrokerError(code, f"{subject}: {broker_message or code.name.replace('_', ' ')}")


def passes(error: ClientError) -> bool:
    """Whether it may pass by itself: there was no answer, or one that says so."""
    return error.code.retriable if isinstance(error, BrokerError) else isinstance(error, Unreachable | TimedOut)
