r"""Format strings for consumed records, with kcat's letters.

    %s value · %S its length (-1 for null) · %k key · %K its length · %h headers as name=value,… · %t topic
    %p partition · %o offset · %T timestamp in ms · %% a percent sign · \n \r \t \0 \\ \xNN

A null key, value or header value is written as nothing, so that binary output stays exact.
"""

import re
from collections.abc import Callable, Iterable
from typing import cast

from confluent_kafka import Message

Writer = Callable[[Message], bytes]

_TOKEN = re.compile(rb"%(?P<letter>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


class FormatStringError(ValueError):
    """An invalid format string, with the reason."""


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers: the client library gives a list of pairs, or None."""
    # Its types also allow a dictionary, which only a message to be produced has.
    headers = cast("Iterable[tuple[str, str | bytes | None]]", message.headers() or ())
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in headers]


def _headers(message: Message) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in headers_of(message))


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


_LETTERS: dict[bytes, Writer] = {
    b"s": lambda message: message.value() or b"",
    b"S": lambda message: _length(message.value()),
    b"k": lambda message: message.key() or b"",
    b"K": lambda message: _length(message.key()),
    b"h": _headers,
    b"t": lambda message: (message.topic() or "").encode(),
    b"p": lambda message: b"%d" % (message.partition() or 0),
    b"o": lambda message: b"%d" % (message.offset() or 0),
    b"T": lambda message: b"%d" % message.timestamp()[1],
}


def compile_format(text: str) -> Writer:
    """A function that writes one record as `text` says."""
    template = text.encode(errors="surrogateescape")
    pieces: list[bytes | Writer] = []
    position = 0
    for token in _TOKEN.finditer(template):
        pieces.append(template[position : token.start()])
        pieces.append(_piece(token))
        position = token.end()
    pieces.append(template[position:])
    merged = _merge(pieces)

    def write(message: Message) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(message) for piece in merged])

    return write


def _piece(token: re.Match[bytes]) -> bytes | Writer:
    letter = token["letter"]
    if letter == b"%":
        return b"%"
    if letter is not None:
        if letter not in _LETTERS:
            raise FormatStringError(f"%{letter.decode(errors='replace')} is not one of %s %S %k %K %h %t %p %o %T %%")
        return _LETTERS[letter]
    if token["hex"] is not None:
        return bytes.fromhex(token["hex"].decode())
    if token["escape"] not in _ESCAPES:
        raise FormatStringError(rf"\{token['escape'].decode(errors='replace')} is not one of \n \r \t \0 \\ \xNN")
    return _ESCAPES[token["escape"]]


def _merge(pieces: list[bytes | Writer]) -> list[bytes | Writer]:
    """Join neighbouring literals: one record's output is then few pieces."""
    merged: list[bytes | Writer] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
