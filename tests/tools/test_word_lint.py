"""The word lint finds what it lists, in prose and in names, and nothing in ordinary text."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "word_lint.py"


def loaded() -> ModuleType:
    specification = importlib.util.spec_from_file_location("word_lint", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


word_lint = loaded()


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("The client is told that the broker stopped.", "is told"),
        ("def fenced_as_told_to(self) -> None:", "as told"),
        ("class MortalDisk(Disk):", "mortal"),
        ("rows that were set aside", "set aside"),
        ("NOBODY_WAITS = 3", "nobody"),
        ("the controller takes office", "takes office"),
    ],
)
def test_a_listed_phrase_is_found_in_prose_and_in_names(line: str, phrase: str) -> None:
    assert word_lint.phrases_in(line) == [phrase]


@pytest.mark.parametrize(
    "line",
    ["The broker rejects the request.", "bellwether = renewal", "It told the client.", "the offset is passed overall"],
)
def test_ordinary_text_passes(line: str) -> None:
    assert word_lint.phrases_in(line) == []


def test_a_finding_names_file_line_and_replacement() -> None:
    (finding,) = word_lint.findings("docs/page.md", "first line\nbegin anew\n")
    assert str(finding) == "docs/page.md:2: 'anew': write again, from scratch, recreate"


def test_a_phrase_is_found_across_a_line_break_and_once() -> None:
    (finding,) = word_lint.findings("docs/page.md", "# a record is passed\n# over, and the next one is read\n")
    assert (finding.line, finding.phrase) == (1, "passed over")


def test_every_phrase_has_a_replacement() -> None:
    assert word_lint.REPLACEMENTS
    assert all(word_lint.REPLACEMENTS.values())
