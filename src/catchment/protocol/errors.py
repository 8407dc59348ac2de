"""The two ways a request can go wrong.

`ApiError` is an answer: the domain raises it, and it becomes an error code once, at the smallest unit that the response can carry.
`MalformedRequest` is the end of a connection: the bytes are not what the protocol allows, so nothing after them can be trusted.
"""

from kio.schema.errors import ErrorCode


class ApiError(Exception):
    """An error that a client is told about by its Kafka error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class MalformedRequest(Exception):
    """A frame that does not parse: the connection is closed, the broker goes on."""
