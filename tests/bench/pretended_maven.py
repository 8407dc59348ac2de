"""A program named mvn in front of all others, for tests of what is fetched by Maven."""

from __future__ import annotations

from pathlib import Path

import pytest


def install_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Have a script called in Maven's place; the file that it may note its calls in, `$FETCHES`."""
    commands = tmp_path / "commands"
    commands.mkdir()
    maven = commands / "mvn"
    maven.write_text(script)
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("FETCHES", str(tmp_path / "fetches"))
    return tmp_path / "fetches"
