"""The guide to groups works as written: its commands and its program, in their order, against one broker."""

import os
import re
import subprocess
import sys
from pathlib import Path

from catchment import Broker
from catchment.cli.options import BOOTSTRAP_VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "groups.md"
TIMEOUT_S = 600
ADDRESS = "127.0.0.1:9092"


def script() -> str:
    """Every block of the page, in one shell; `catchment` is that of this very environment."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in blocks].count("python") == 1
    parts = [
        f"\"{sys.executable}\" - <<'PROGRAM'\n{block}PROGRAM\n" if kind == "python" else block for kind, block in blocks
    ]
    return "\n".join(["set -eo pipefail", f'catchment() {{ "{sys.executable}" -m catchment.cli "$@"; }}', *parts])


def test_the_guide_to_groups_works_as_written(tmp_path: Path) -> None:
    with Broker() as broker:
        done = subprocess.run(
            ["bash", "-c", script().replace(ADDRESS, broker.bootstrap_servers)],
            cwd=tmp_path,
            env={**os.environ, BOOTSTRAP_VARIABLE: broker.bootstrap_servers},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    # Two records went to the command, and the program has the other seven.
    assert len(re.findall(r"^working on b'\d'$", done.stdout, re.MULTILINE)) == 7
    assert re.search(r"^billing\tclassic\tconsumer\tEmpty$", done.stdout, re.MULTILINE)
    assert (tmp_path / "positions.csv").read_text().count("orders,") >= 1
