"""The two ways a request can go wrong.

`ApiError` is an answer: the domain raises it, and it becomes an error code once, at the smallest unit that the response can carry.
`MalformedRequest` is the end of a connection: the bytes are not what the protocol allows, so nothing after them can be trusted.
"""

from collections.abc import Sequence
from typing import Self

from kio.schema.errors import ErrorCode


class ApiError(Exception):
    """An error that a client is told about by its Kafka error code."""

    def __init__(
        self, code: ErrorCode, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        """`record_errors` are the index in the batch and the message of each record that is at fault (KIP-467)."""
        super().__init__(message or code.name)
        self.code = code
        self.message = message
        self.record_errors = record_errors

    def without_stack(self) -> Self:
        """To be kept as a result: the stack that raised it takes a kilobyte, and a request may have thousands of results."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class MalformedRequest(Exception):
    """A frame that does not parse: the connection is closed, the broker goes on."""


def is_native_panic(cause: BaseException) -> bool:
    """Whether an extension written in Rust gave up inside a call: PyO3 raises a BaseException of its own then."""
    return type(cause).__module__ == "pyo3_runtime"
