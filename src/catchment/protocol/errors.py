"""The two kinds of errors of a request.

`ApiError` becomes a response: the domain raises it, and it becomes an error code once, at the smallest unit of the response.
`MalformedRequest` closes the connection: the bytes violate the protocol, so nothing after them can be trusted.
"""

from collections.abc import Sequence
from typing import Self

from kio.schema.errors import ErrorCode


class ApiError(Exception):
    """An error that the client gets as a Kafka error code."""

    def __init__(
        self, code: ErrorCode, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        """`record_errors` are the index in the batch and the message of each invalid record (KIP-467)."""
        super().__init__(message or code.name)
        self.code = code
        self.message = message
        self.record_errors = record_errors

    def without_stack(self) -> Self:
        """The error without its traceback, to be kept as a result: a traceback takes a kilobyte, and a request may have thousands."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class MalformedRequest(Exception):
    """A frame that cannot be parsed. The connection is closed; the broker continues."""


def is_native_panic(cause: BaseException) -> bool:
    """Whether an extension written in Rust panicked: PyO3 raises its own BaseException then."""
    return type(cause).__module__ == "pyo3_runtime"
