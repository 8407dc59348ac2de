"""The README stays short, and its program works as written."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
LINES = 120
TIMEOUT_S = 300


def test_the_readme_begins_with_its_two_commands_and_is_short() -> None:
    assert PAGE.splitlines()[3:5] == [
        "make run     # set everything up in .venv and start the platform",
        "make test    # set everything up and run every test",
    ]
    assert len(PAGE.splitlines()) <= LINES


def test_the_program_with_a_broker_in_its_own_process_works_as_written(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (program,) = [one for one in programs if "catchment.Broker()" in one]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
