"""The errors of the client: what happened, to what, and what to do next.

Each is a `ClientError`. Retriable errors have been retried before one of these is raised.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

_UNREACHABLE: Final = "Check that the broker is up and that its advertised.listeners can be reached from here."
_SLOW: Final = "Check that the broker is healthy, or allow more time."
_CREATE: Final = "Create it, or check its spelling."
_GRANT: Final = "Ask for access to it, or connect as another user with sasl.username and sasl.password."
_MEMBERS: Final = "The group has members: stop them, or commit to another group."
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
    """The base of all errors of the client."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(message, advice)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}. {self.advice}" if self.advice else self.message


class SettingsError(ClientError):
    """Settings that are invalid in themselves or for this cluster, so that no retry helps."""


class RecordTooLarge(ClientError):
    """A record that does not fit into a batch of its own."""


class Unreachable(ClientError):
    """A connection that could not be opened, or that was lost before the response."""

    def __init__(self, message: str, advice: str | None = _UNREACHABLE) -> None:
        super().__init__(message, advice)


class NoSuchBroker(Unreachable):
    """A broker that is not among the running brokers of the cluster."""


class TimedOut(ClientError):
    """A response that did not arrive in time."""

    def __init__(self, message: str, advice: str | None = _SLOW) -> None:
        super().__init__(message, advice)


class BrokerError(ClientError):
    """An error code in a broker's response."""

    def __init__(self, code: ErrorCode, message: str, advice: str | None = None) -> None:
        """`message` says what failed for what, and may contain the broker's own message."""
        super().__init__(f"{message} ({code.name.upper()})", advice or _ADVICE.get(code))
        self.args = (code, message, advice)
        self.code = code


def raise_for(code: ErrorCode, subject: str, broker_message: str | None = None) -> None:
    """Raise the BrokerError of a code for `subject`, such as "cannot commit for group g". Does nothing without an error."""
    if code is not ErrorCode.none:
        raise BrokerError(code, f"{subject}: {broker_message or code.name.replace('_', ' ')}")


def passes(error: ClientError) -> bool:
    """Whether a retry may succeed: there was no response, or one with a retriable error."""
    return error.code.retriable if isinstance(error, BrokerError) else isinstance(error, Unreachable | TimedOut)
