"""What is rendered from the code is up to date: if not, `make docs` and commit."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES: dict[Path, str] = runpy.run_path(str(ROOT / "tools" / "render_docs.py"))["pages"]()


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_the_page_says_what_the_code_says(path: Path) -> None:
    assert path.read_text() == PAGES[path]


def test_every_module_says_what_it_is_for() -> None:
    assert "|  |" not in PAGES[ROOT / "docs" / "file-map.md"]
