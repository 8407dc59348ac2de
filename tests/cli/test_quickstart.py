"""The commands of the quick start and of the README do what the pages say, in their order, in one shell."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from catchment import Broker
from catchment.cli.options import BOOTSTRAP_VARIABLE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "quickstart.md"
TIMEOUT_S = 600


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Each block of code with its language."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def shell_lines() -> list[str]:
    """Every command that ends by itself and needs no other machine."""
    blocks = blocks_of(PAGE)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines() if "catchment " in line]
    endless = {"catchment up", "catchment consume orders --from -10 --json"}
    return [line for line in lines if line not in endless and not line.startswith(("pip ", "make ", "export "))]


def run_shell(lines: list[str], directory: Path, broker: Broker) -> "subprocess.CompletedProcess[str]":
    """Run commands with the `catchment` of this very environment, whatever the path of the machine holds."""
    script = "\n".join(["set -eo pipefail", f'catchment() {{ "{sys.executable}" -m catchment.cli "$@"; }}', *lines])
    return subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env={**os.environ, BOOTSTRAP_VARIABLE: broker.bootstrap_servers},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_quick_start_works_as_written(tmp_path: Path) -> None:
    lines = shell_lines()
    assert len(lines) >= 9

    with Broker(tmp_path / "catchment-data") as broker:
        local = "catchment doctor --set listeners=PLAINTEXT://127.0.0.1:0"
        done = run_shell([line.replace("catchment doctor", local) for line in lines], tmp_path, broker)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1/0 42 -> two coffees$", done.stdout, re.MULTILINE)
    assert "sent 2 records" in done.stderr


def test_the_program_of_the_quick_start_sends_a_key_where_the_command_sends_it() -> None:
    (program,) = [block for kind, block in blocks_of(PAGE) if kind == "python"]
    with Broker() as broker:
        broker.create_topic("orders", partitions=3)
        exec(program.replace("127.0.0.1:9092", broker.bootstrap_servers), {})
        done = run_shell(["catchment consume orders --until-end --format '%p %k -> %s\\n'"], ROOT, broker)

    # The page shows that the command sends the key 42 to partition 1.
    assert done.stdout == "1 42 -> three coffees\n", done.stderr


def test_what_the_commands_of_the_readme_send_is_what_its_pipeline_reads(tmp_path: Path) -> None:
    blocks = blocks_of(ROOT / "README.md")
    (commands,) = [block for kind, block in blocks if not kind and "catchment produce" in block]
    (schema,) = [found for _, block in blocks for found in re.findall(r'topic\("orders", schema="(.*?)"\)', block)]

    with Broker() as broker:
        done = run_shell(commands.splitlines(), tmp_path, broker)

    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {column.split()[0] for column in schema.split(", ")}
