"""Run `catchment up` on a terminal, send it some traffic, and save what it shows as an SVG.

python tools/up_picture.py docs/images/up.svg --seconds 8
"""

import argparse
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from rich.console import Console
from rich.text import Text

_COLUMNS, _ROWS = 84, 24
_PORT = 9092
_RECORD = b"x" * 100
_RECORDS_EACH_TIME = 20
# How rich returns to the first line of what it redraws.
_REDRAWN = re.compile(r"\r?\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
_CURSOR = re.compile(r"\x1b\[\?25[lh]")
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="catchment-picture-") as folder:
        frame = last_frame(shown(Path(folder), options.seconds))
    width = max(len(line) for line in Text.from_ansi(frame).plain.splitlines())
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(frame))
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    # The page that shows it has fonts of its own, and fetches none from elsewhere.
    options.picture.write_text(_FONTS.sub("", console.export_svg(title="catchment up")), encoding="utf-8")


def shown(folder: Path, seconds: float) -> str:
    """What the command writes to its terminal while records come in."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS), "LINES": str(_ROWS)}
    command = [sys.executable, "-m", "catchment.cli", "up", "--port", str(_PORT)]
    broker = subprocess.Popen(command, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    written = bytearray()
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{_PORT}", "log_level": 0})
    deadline_s = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline_s:
            for _ in range(_RECORDS_EACH_TIME):
                producer.produce("orders", _RECORD, on_delivery=_ignore)
            producer.poll(0)
            if broker.poll() is not None:
                raise SystemExit(f"the command ended: {written.decode()}")
            if select.select([controller], [], [], 0.02)[0]:
                written += os.read(controller, 1 << 16)
    finally:
        broker.kill()
        broker.wait()
        os.close(controller)
    return written.decode()


def last_frame(written: str) -> str:
    """The last frame that is whole: the one before the last, since the last may be cut off."""
    frames = [frame for frame in _REDRAWN.split(_CURSOR.sub("", written)) if frame.strip()]
    if len(frames) < 2:
        raise SystemExit("the command showed nothing: give it more time")
    return frames[-2].replace("\r\n", "\n").strip("\n")


def _ignore(error: KafkaError | None, message: Message) -> None:
    """A record that is lost when the broker is killed is of no interest here."""


if __name__ == "__main__":
    main()
