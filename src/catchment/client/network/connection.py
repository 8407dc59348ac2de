"""One connection to one broker: opened, encrypted and authenticated as the settings say, with the versions of the broker.

Requests may be sent ahead of the responses to earlier ones; responses are in the order of the requests. A frame is received
into one buffer of its size, and the body of the response is a view of it: the records of a fetch are not copied.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ETIMEDOUT
from functools import cache
from importlib.metadata import version as package_version
from selectors import EVENT_READ, DefaultSelector
from struct import Struct
from types import TracebackType
from typing import Any, Final, Self, cast

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from catchment.client.errors import ClientError, SettingsError, TimedOut, Unreachable, raise_for
from catchment.client.network.deadline import Deadline
from catchment.client.network.sasl import Exchange, authenticate
from catchment.client.settings import ConnectionSettings, Credentials
from catchment.protocol.apis import APIS
from catchment.protocol.client import DEFAULT_FRAME_LIMIT_BYTES, ClientProtocol, Response
from catchment.protocol.errors import MalformedRequest

_LENGTH: Final = Struct(">i")
_CORRELATION_ID: Final = slice(8, 12)
_API_VERSIONS_VERSIONS: Final = (3, 0)
_SESSION_SHARE: Final = 0.85
# A timeout of 0 would make the socket non-blocking, which raises other errors.
_SHORTEST_WAIT_S: Final = 0.001
_NO_TIME_LEFT: Final = (TimeoutError, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_NOT_PLAIN: Final = "If the listener uses TLS or SASL, set security.protocol."
_NOT_TLS: Final = (
    "Check that the listener uses TLS; if it does not, set security.protocol to PLAINTEXT or SASL_PLAINTEXT."
)


class Connection:
    """A connection for one thread. It is closed after Unreachable, but stays usable after TimedOut in `receive`."""

    def __init__(self, host: str, port: int, settings: ConnectionSettings, timeout_s: float) -> None:
        """Connect, negotiate versions and authenticate within `timeout_s`."""
        self.name = f"{host}:{port}"
        self._request_timeout_s = settings.request_timeout_s
        self._protocol = ClientProtocol(settings.client_id)
        self._expect(_LENGTH.size, is_length=True)
        self._is_encrypted = settings.tls is not None
        self._responses = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._features: dict[str, int] = {}
        self._session_ends_at_s = float("inf")
        deadline = Deadline(timeout_s)
        self._socket = self._connect(host, port, settings, deadline)
        try:
            self._greet(deadline)
            if settings.credentials is not None:
                self._authenticate(settings.credentials, deadline)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it may be used: it is not closed, and the broker is not about to close it at the end of the SASL session."""
        return self._socket.fileno() != -1 and time.monotonic() < self._session_ends_at_s

    @property
    def pending(self) -> int:
        """How many requests are in flight."""
        return self._protocol.pending

    @property
    def has_decrypted(self) -> bool:
        """Whether TLS has decrypted bytes that were not read yet."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def feature(self, name: str) -> int:
        """The finalized level of a feature of the cluster, such as `transaction.version`; 0 if it has none."""
        return self._features.get(name, 0)

    def version_of(self, api_key: int) -> int:
        """The newest version of an API that both sides support."""
        api = APIS[api_key]
        oldest, newest = self._versions.get(api_key, (0, -1))
        version = min(api.newest, newest)
        if version < max(api.oldest, oldest):
            raise SettingsError(f"the broker at {self.name} does not serve {api.name}", "It may be an older Kafka.")
        return version

    def send(self, request: Any, version: int | None = None) -> int:
        """Send a request, given as its newest class. Returns its correlation id."""
        frame = self._protocol.request(request, self.version_of(request.__api_key__) if version is None else version)
        with self._told():
            # A request that was sent in part is lost with its connection, so it gets the whole request timeout.
            self._socket.settimeout(self._request_timeout_s)
            try:
                self._socket.sendall(frame)
            except TimeoutError as error:
                raise ConnectionError("it did not accept the request in time") from error
        return int.from_bytes(frame[_CORRELATION_ID], "big")

    def receive(self, timeout_s: float | None = None) -> Response:
        """The next response, within `timeout_s` (default: request.timeout.ms). A part that has arrived is kept."""
        deadline = Deadline(self._request_timeout_s if timeout_s is None else timeout_s)
        with self._told():
            if self._is_length:
                self._fill(deadline)
                (length,) = _LENGTH.unpack(self._frame)
                if not 0 <= length <= DEFAULT_FRAME_LIMIT_BYTES:
                    raise MalformedRequest(f"a response claims {length} bytes")
                self._expect(length, is_length=False)
            self._fill(deadline)
            frame = self._frame.toreadonly()
            self._expect(_LENGTH.size, is_length=True)
            response = self._protocol.parse_response(frame)
            self._responses += 1
            return response

    def ask(self, request: Any, timeout_s: float | None = None, version: int | None = None) -> Any:
        """Send a request and return the response as its newest class. No other request may be in flight."""
        self.send(request, version)
        try:
            return self.receive_response(timeout_s)
        except TimedOut:
            # A late response must not be taken for that to the next request.
            self.close()
            raise

    def receive_response(self, timeout_s: float | None = None) -> Any:
        """The next response as its newest class, within `timeout_s`."""
        received = self.receive(timeout_s)
        with self._told():
            return received.decode()

    def _expect(self, size: int, *, is_length: bool) -> None:
        """Prepare to receive a frame, or the length of one."""
        self._frame = memoryview(bytearray(size))
        self._filled = 0
        self._is_length = is_length

    def _fill(self, deadline: Deadline) -> None:
        while self._filled < len(self._frame):
            # Without time left, this reads what has arrived and does not wait.
            self._socket.settimeout(deadline.left_s())
            count = self._socket.recv_into(self._frame[self._filled :])
            if count == 0:
                raise ConnectionError("it closed the connection")
            self._filled += count

    def _connect(self, host: str, port: int, settings: ConnectionSettings, deadline: Deadline) -> socket.socket:
        try:
            plain = socket.create_connection((host, port), max(deadline.left_s(), _SHORTEST_WAIT_S))
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"cannot connect to {self.name}: {error}") from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if settings.tls is None:
            return plain
        self._socket = plain
        try:
            with self._told():
                plain.settimeout(deadline.left_s())
                return settings.tls.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def _greet(self, deadline: Deadline) -> None:
        """Fetch the versions of the broker. One that does not support our version of the request gets the oldest (KIP-511)."""
        for version in _API_VERSIONS_VERSIONS:
            request = ApiVersionsRequest(client_software_name="catchment", client_software_version=_own_version())
            response = self.ask(request, deadline.left_s(), version)
            if response.error_code is not ErrorCode.unsupported_version:
                break
        raise_for(response.error_code, f"cannot read the versions of {self.name}")
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        self._features = {one.name: one.max_version_level for one in response.finalized_features}

    def _authenticate(self, credentials: Credentials, deadline: Deadline) -> None:
        subject = f"cannot authenticate as {credentials.username} at {self.name}"
        shaken = self.ask(SaslHandshakeRequest(mechanism=credentials.mechanism), deadline.left_s())
        offered = f"it offers {', '.join(shaken.mechanisms)}, not {credentials.mechanism}"
        raise_for(shaken.error_code, subject, offered)
        exchange = authenticate(credentials)
        message: bytes | None = next(exchange)
        while message is not None:
            response = self.ask(SaslAuthenticateRequest(auth_bytes=message), deadline.left_s())
            raise_for(response.error_code, subject, response.error_message)
            message = _next_message(exchange, response.auth_bytes)
        if lifetime_s := response.session_lifetime.total_seconds():
            # A broker that limits sessions closes the connection at their end (KIP-368): open a new one before.
            self._session_ends_at_s = time.monotonic() + lifetime_s * _SESSION_SHARE

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Convert the errors of a socket to a ClientError. The connection is closed, except after a timeout."""
        try:
            yield
        except (OSError, MalformedRequest) as error:
            explained = self._explain(error)
            if not isinstance(explained, TimedOut):
                self.close()
            raise explained from error

    def _explain(self, error: OSError | MalformedRequest) -> ClientError:
        # A timeout of the kernel means that the peer is gone.
        if isinstance(error, _NO_TIME_LEFT) and error.errno != ETIMEDOUT:
            return TimedOut(f"no response from {self.name} in time")
        if isinstance(error, ssl.SSLCertVerificationError):
            return SettingsError(
                f"the certificate of {self.name} is not trusted: {error.verify_message}",
                "Set ssl.ca.location to the authority that signed it; "
                "ssl.endpoint.identification.algorithm=none accepts it for another host name.",
            )
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return SettingsError(
                f"TLS with {self.name} failed: {error.reason or error}",
                "Check that the listener uses TLS, and whether it requires a client certificate "
                "(ssl.certificate.location, ssl.key.location).",
            )
        # Every listener responds to ApiVersions; only a later response shows that the security settings are right.
        if self._responses > 1:
            return Unreachable(f"no response from {self.name}: {error}")
        return Unreachable(f"no response from {self.name}: {error}", _NOT_TLS if self._is_encrypted else _NOT_PLAIN)


@cache
def _own_version() -> str:
    """Cached: it is read from a file, which takes longer than to connect."""
    return package_version("catchment-streaming")


def _next_message(exchange: Exchange, answered: bytes) -> bytes | None:
    try:
        return exchange.send(answered)
    except StopIteration:
        return None


def wait(connections: Iterable[Connection], timeout_s: float) -> list[Connection]:
    """The connections with something to receive or that were lost, as soon as there is one; none after the timeout."""
    waiting = list(connections)
    # The socket does not show what TLS has decrypted already.
    if decrypted := [connection for connection in waiting if connection.has_decrypted]:
        return decrypted
    with DefaultSelector() as selector:
        for connection in waiting:
            selector.register(connection, EVENT_READ)
        return [cast("Connection", key.fileobj) for key, _ in selector.select(timeout_s)]
