"""The commands of the quick start do what the page says, in its order, in one shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

from catchment import Broker
from catchment.cli.options import BOOTSTRAP_VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "quickstart.md"
TIMEOUT_S = 600


def shell_lines() -> list[str]:
    """Every command that ends by itself and needs no other machine."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines() if "catchment " in line]
    endless = {"catchment up", "catchment consume orders --from -10 --json"}
    return [line for line in lines if line not in endless and not line.startswith(("pip ", "export "))]


def test_the_quick_start_works_as_written(tmp_path: Path) -> None:
    lines = shell_lines()
    assert len(lines) >= 9

    with Broker(tmp_path / "catchment-data") as broker:
        # `catchment` of this very environment, whatever the path of the machine holds.
        script = "\n".join(["set -eo pipefail", f'catchment() {{ "{sys.executable}" -m catchment.cli "$@"; }}', *lines])
        script = script.replace("catchment doctor", "catchment doctor --set listeners=PLAINTEXT://127.0.0.1:0")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, BOOTSTRAP_VARIABLE: broker.bootstrap_servers},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1/0 42 -> two coffees$", done.stdout, re.MULTILINE)
    assert "sent 2 records" in done.stderr
