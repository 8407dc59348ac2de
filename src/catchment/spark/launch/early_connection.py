"""PySpark's process that plans the batches of a stream, connected before it has loaded anything.

Spark starts one for each stream, and gives up one that has not connected within ten seconds; on a busy machine it takes PySpark as long
to load. The query then fails, and the process finds its socket gone and prints a traceback. So `python_command` has Python run this file
instead. It connects first, with the standard library alone, and loads PySpark while Spark waits for the first answer.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from importlib import import_module
from typing import Final

RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_SOCKET: Final = "PYTHON_WORKER_FACTORY_SOCK_PATH"
_BUFFER: Final = "SPARK_BUFFER_SIZE"
_DEFAULT_BUFFER: Final = 65536


def run(module: str) -> None:
    """What `python -m module` does, in another order."""
    sys.path.insert(0, os.getcwd())
    path = os.environ.get(_SOCKET)
    if path is None:
        runpy.run_module(module, run_name="__main__")
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
        except OSError as error:
            sys.exit(f"Spark has not waited for a process that it started: {error.strerror}")
        try:
            with connection.makefile("rwb", int(os.environ.get(_BUFFER, _DEFAULT_BUFFER))) as file:
                file.write(struct.pack("!i", os.getpid()))
                file.flush()
                import_module(module).main(file, file)
        except (BrokenPipeError, ConnectionResetError):
            # Spark has stopped the stream, or is gone.
            sys.exit(1)


if __name__ == "__main__":
    run(sys.argv[1])
