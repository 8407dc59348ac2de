"""What pyproject.toml offers is what the tests run with."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_all_that_the_package_and_its_extras_bring_is_in_the_lock_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = {distribution(line) for lines in [project["dependencies"], *extras.values()] for line in lines}
    locked = {distribution(line) for line in (ROOT / "requirements" / "lock.txt").read_text().splitlines()}
    assert wanted - {"catchment"} <= locked


def distribution(requirement: str) -> str:
    name = re.match(r"[\w.-]*", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()
