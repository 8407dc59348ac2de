"""The glossary defines each term once, in the order of the alphabet, and terms that other definitions use are there."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)


def test_the_terms_stand_in_the_order_of_the_alphabet_and_once_each() -> None:
    assert len(TERMS) > 20
    assert sorted(set(TERMS), key=str.lower) == TERMS


def test_terms_in_definitions_are_defined() -> None:
    used = re.findall(r"(?<!\*)\*([a-z -]+)\*(?!\*)", PAGE)
    defined = {term.lower() for term in TERMS}
    assert [term for term in used if term not in defined and term.removesuffix("s") not in defined] == []
