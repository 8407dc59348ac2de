"""A process that plans has connected before it loads anything, and says in a line that Spark has not waited for it."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from catchment.spark.launch import early_connection

TIMEOUT_S: Final = 150.0
RUNNER: Final = """
import sys
import struct

def main(infile, outfile):
    assert infile is outfile
    (number,) = struct.unpack("!i", infile.read(4))
    outfile.write(struct.pack("!i?", number + 1, "pyspark" in sys.modules))
    outfile.flush()
    infile.read(1)
    outfile.write(b"no process reads this")
"""


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """As the launcher starts it, with a runner that lies in the working directory."""
    (folder / "runner.py").write_text(RUNNER)
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": str(folder / "socket")}
    command = [sys.executable, "-P", early_connection.__file__, "runner"]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        yield process


def test_it_connects_tells_its_id_and_runs(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        listening.settimeout(TIMEOUT_S)
        with started(tmp_path) as process:
            connection, _ = listening.accept()
            with connection, connection.makefile("rwb") as file:
                assert struct.unpack("!i", file.read(4)) == (process.pid,)
                file.write(struct.pack("!i", 41))
                file.flush()
                assert struct.unpack("!i?", file.read(5)) == (42, False), "nothing of PySpark is loaded for that"
                # A connection that is closed with something unread is reset.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _, said = process.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in said


def test_a_socket_that_is_gone_is_reported_in_a_line(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, said) == (
        1,
        "Spark has not waited for a process that it started: No such file or directory\n",
    )
