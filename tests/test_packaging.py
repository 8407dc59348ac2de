"""What pyproject.toml and the Makefile offer is what the tests are run with."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_all_that_the_package_and_its_extras_bring_is_in_the_lock_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = {distribution(line) for lines in [project["dependencies"], *extras.values()] for line in lines}
    locked = {distribution(line) for line in (ROOT / "requirements" / "lock.txt").read_text().splitlines()}
    assert wanted - {project["name"]} <= locked


def test_what_to_install_is_named_as_the_package_and_its_extras_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"pip install '([\w-]+)\[[\w{]", text)}
    extras = {extra for text in sources for extra in re.findall(r"pip install '[\w-]+\[(\w+)\]'", text)}
    assert named - {"psycopg"} == {project["name"]}
    assert extras - {"binary"} <= project["optional-dependencies"].keys()


def test_no_page_installs_the_project_that_has_our_name_on_the_package_index() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if re.search(r"pip install '?catchment\b", page.read_text())] == []


def test_the_wheel_that_the_quick_start_installs_is_the_one_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wheel = f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"
    assert wheel in (ROOT / "docs" / "guide" / "quickstart.md").read_text()


def test_every_test_with_a_long_form_is_in_the_soak() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nsoak:")[2].partition("\n\n")[0]
    long_forms = {
        str(path.relative_to(ROOT)): variables
        for path in (ROOT / "tests").rglob("test_*.py")
        if (variables := re.findall(r'environ\.get\("(CATCHMENT_\w+(?<!_SEED))"', path.read_text()))
    }
    assert len(long_forms) > 5
    assert [path for path in long_forms if path not in recipe] == []
    assert [name for names in long_forms.values() for name in names if f"{name}=" not in recipe] == []


def distribution(requirement: str) -> str:
    name = re.match(r"[\w.-]*", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()
