"""kio survives what the guard accepts: messages that once ended the process, and a campaign of random messages.

Set CATCHMENT_DECODE_EXAMPLES for a longer campaign, such as 1000000, and CATCHMENT_DECODE_SEED to repeat one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from tests.protocol.decode_campaign import Example, run_in_child, verdict

from catchment.protocol import codec
from catchment.protocol.errors import MalformedRequest

EXAMPLES = int(os.environ.get("CATCHMENT_DECODE_EXAMPLES", "5000"))
SEED = int(os.environ.get("CATCHMENT_DECODE_SEED", str(Random().getrandbits(32))))
EXAMPLES_A_CHILD = 100_000


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        pytest.param(
            "accepted",
            "response 89 0 00000000020000000267027300000000000000008002086162f48fbfbf0f000000000000026302680000"
            "00000270ff01010101010100010101000000000000000000",
            id="a struct is null by another negative number than -1",
        ),
        pytest.param(
            "malformed",
            "request 11 9 0267000075300000ea60018000060241010006ffffffff0f01000101000101000101000000",
            id="a null string whose length is a zero of two bytes",
        ),
    ],
)
def test_messages_that_once_ended_the_process_no_longer_do(expected: str, line: str) -> None:
    kind, key, version, wire = line.split()
    program = (
        "from tests.protocol.decode_campaign import *\n"
        "resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))\n"
        f"print(verdict(Example({kind!r}, {key}, {version}, bytes.fromhex({wire!r}))))"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout.strip()) == (0, expected), child.stderr


def test_guard_and_kio_agree_about_every_message(tmp_path: Path) -> None:
    for number, start in enumerate(range(0, EXAMPLES, EXAMPLES_A_CHILD)):
        examples = min(EXAMPLES_A_CHILD, EXAMPLES - start)
        outcome = run_in_child(SEED + number, examples, tmp_path / "journal")
        assert outcome.exit_code == 0, f"seed {SEED + number} died of {outcome.last}\n{outcome.errors}"
        assert not outcome.disagreements, f"seed {SEED + number}"
        assert outcome.accepted > examples // 10


def test_the_campaign_detects_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown_tag = Example("request", 18, 3, b"\x02a\x02b\x01\x50\x00")
    assert verdict(unknown_tag) == "accepted"
    monkeypatch.setattr(codec, "guarded", lambda message_class, data, memory, is_lifted: data)
    assert verdict(unknown_tag).startswith("KeyError")


def test_a_panic_of_native_code_is_a_malformed_message(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        __module__ = "pyo3_runtime"

    def panic(data: bytes, offset: int) -> NoReturn:
        raise PanicException("index out of bounds")

    def interrupt(data: bytes, offset: int) -> NoReturn:
        raise KeyboardInterrupt

    for reader, expected in ((panic, MalformedRequest), (interrupt, KeyboardInterrupt)):
        codec._decoder.cache_clear()
        monkeypatch.setattr(codec, "entity_reader", lambda message_class, reader=reader: reader)
        with pytest.raises(expected):
            codec.decode_request(18, 3, b"\x02a\x02b\x00")
    codec._decoder.cache_clear()
