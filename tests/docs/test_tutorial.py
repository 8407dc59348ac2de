"""The tutorial works word by word: its blocks run in their order in one shell, and print what the page shows.

A `sh` block is run as it stands, a `python` block by `python -`. A `text` block is what the block before it prints: its lines come
in this order, others may be between them, `…` stands for anything, and columns of a terminal are tabs in a pipe. Only the port is
another one.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from catchment.cli.options import BOOTSTRAP_VARIABLE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "tutorial.md"
PORT = "9092"
TIMEOUT_S = 1400


class Block(NamedTuple):
    """A block that is run, and the lines that the page shows as its output."""

    kind: str
    code: str
    shown: list[str]


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    for kind, code in re.findall(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if kind == "text":
            found[-1].shown.extend(code.splitlines())
        elif kind in ("sh", "python"):
            found.append(Block(kind, code, []))
        else:
            assert kind == "mermaid", f"a block of {kind} that is neither run nor compared"
    return found


def script(page: list[Block]) -> str:
    """One shell for all blocks, with a line before the output of each."""
    parts = ["exec 2>&1", "set -eo pipefail"]
    for number, block in enumerate(page):
        code = block.code if block.kind == "sh" else f"python - <<'PROGRAM'\n{block.code}PROGRAM\n"
        parts.append(f"echo '=== {number}'\n{code}")
    return "\n".join(parts)


def missing_lines(shown: list[str], printed: list[str]) -> list[str]:
    """Lines that the page shows and that were not printed in this order."""
    rest = iter(printed)
    return [line for line in shown if not any(is_like(line, other) for other in rest)]


def is_like(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in " ".join(shown.split()).split("…"))
    return re.fullmatch(pattern, " ".join(printed.split())) is not None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def run(code: str, folder: Path, port: int) -> str:
    """What a shell prints in an otherwise empty home, and nothing that it started is left over."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    state = str(folder / "state")
    environment = {**os.environ, "PATH": tools, "XDG_STATE_HOME": state, BOOTSTRAP_VARIABLE: f"127.0.0.1:{port}"}
    output = folder / "output"
    with output.open("w") as file:
        shell = subprocess.Popen(["bash", "-c", code], cwd=folder, env=environment, stdout=file, start_new_session=True)
        try:
            status = shell.wait(TIMEOUT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    printed = output.read_text()
    assert status == 0, printed
    return printed


def test_the_tutorial_works_word_by_word(tmp_path: Path) -> None:
    for name in ("pyspark", "pydantic"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'catchment-streaming[pipelines]'")
    port = free_port()
    page = blocks(PAGE.read_text(encoding="utf-8").replace(PORT, str(port)))
    printed = run(script(page), tmp_path, port)
    outputs = re.split(r"^=== \d+\n", printed, flags=re.MULTILINE)[1:]
    assert len(outputs) == len(page)
    for block, output in zip(page, outputs, strict=True):
        assert missing_lines(block.shown, output.splitlines()) == [], f"{block.code}\nprinted\n{output}"


def test_the_diagram_of_the_tutorial_is_that_of_its_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed: pip install 'catchment-streaming[pipelines]'")
    page = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"^cat > fridges.py <<'END'\n(.*?)^END$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "fridges.py").write_text(program)
    (shown,) = re.findall(r"^```mermaid\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    diagram = runpy.run_path(str(ROOT / "tools" / "render_docs.py"))["diagram"]
    assert shown.splitlines() == diagram(tmp_path / "fridges.py")


def test_lines_are_compared_in_their_order() -> None:
    assert missing_lines(["one", "three …"], ["one", "two", "three 3 s"]) == []
    assert missing_lines(["three …", "one"], ["one", "three 3 s"]) == ["one"]
    assert missing_lines(["one"], ["one more"]) == ["one"]
    assert missing_lines(["a   b"], ["a\tb"]) == []
