"""The contracts of import-linter allow what the table of the architecture page allows, and nothing else."""

import re
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from grimp import ImportGraph
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "catchment"
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
STANDARD_LIBRARY = ("asyncio", "random", "socket", "time")
KINDS: dict[str, type[ForbiddenContract | LayersContract]] = {"forbidden": ForbiddenContract, "layers": LayersContract}


def rules_of_the_page() -> dict[str, set[str]]:
    """For each package of the table, those that it may import."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rules: dict[str, set[str]] = {}
    for package, cell in re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", page, flags=re.MULTILINE):
        if cell == "all above":
            rules[package] = set(rules)
        elif cell == "broker, and what broker may import":
            rules[package] = {"broker"} | rules["broker"]
        elif cell == "nothing of ours":
            rules[package] = set()
        else:
            rules[package] = {word for word in cell.split(", ") if "`" not in word}
    return rules


@cache
def contracts() -> list[ForbiddenContract | LayersContract]:
    """The contracts of pyproject.toml between packages."""
    configuration = read_configuration(str(ROOT / "pyproject.toml"))
    return [
        KINDS[options["type"]](options["name"], configuration["session_options"], options)
        for options in configuration["contracts_options"]
        if options.get("containers", ["catchment"]) == ["catchment"]
    ]


def broken_by(importer: str, imported: str, *, inside: tuple[str, ...] = tuple(PACKAGES)) -> list[str]:
    """The names of the contracts that one import breaks, in a tree that has no other but the one that is always allowed."""
    broken = []
    for contract in contracts():
        graph = ImportGraph()
        for module in ("catchment", *(f"catchment.{package}" for package in inside), "catchment.cluster.metadata"):
            graph.add_module(module)
        for module in STANDARD_LIBRARY:
            graph.add_module(module, is_squashed=True)
        graph.add_import(importer="catchment.coordination.groups", imported="catchment.cluster.metadata")
        graph.add_import(importer=importer, imported=imported)
        if not contract.check(graph, verbose=False).kept:
            broken.append(contract.name)
    return broken


def test_the_table_has_every_package() -> None:
    assert sorted(rules_of_the_page()) == PACKAGES


def test_the_contracts_allow_what_the_table_allows_and_nothing_else() -> None:
    rules = rules_of_the_page()
    allowed = {
        (importer, imported)
        for importer, imported in permutations(PACKAGES, 2)
        if not broken_by(f"catchment.{importer}.one", f"catchment.{imported}.other")
    }
    assert allowed == {(importer, imported) for importer, imports in rules.items() for imported in imports}


@pytest.mark.parametrize(
    ("package", "modules"),
    [("protocol", {"asyncio", "random", "socket", "time"}), ("coordination", {"asyncio", "random", "time"})],
)
def test_packages_without_clock_randomness_and_io_stay_so(package: str, modules: set[str]) -> None:
    assert {module for module in STANDARD_LIBRARY if broken_by(f"catchment.{package}.one", module)} == modules


def test_a_package_without_a_layer_is_a_breach() -> None:
    assert broken_by("catchment.newcomer.one", "catchment.protocol", inside=(*PACKAGES, "newcomer"))
