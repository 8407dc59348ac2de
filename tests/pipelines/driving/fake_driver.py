"""A driver without Spark: it does what its first argument says, with a child in the place of the JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def main(what: str, folder: Path) -> int:
    """`folder` takes a line for each start, with the process of the child."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with (folder / "starts").open("a") as starts:
        starts.write(f"{os.getpid()} {child.pid}\n")
    match what.split("-"):
        case ["exit", code]:
            return int(code)
        case ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["die", "once"]:
            if len((folder / "starts").read_text().splitlines()) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0
        case ["wait"]:
            return _wait(child)
        case ["stubborn"]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            (folder / "ready").touch()
            signal.pause()
    raise SystemExit(f"unknown: {what}")


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Until asked to stop, or until the supervisor is gone."""

    def stop(*_: object) -> None:
        child.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    while os.read(0, 1):
        pass
    stop()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
