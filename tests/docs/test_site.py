"""The documentation site builds strictly, and shows its pages without loading anything from another host."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    for name in ("zensical", "mkdocstrings"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install -r requirements/lock.txt")
    specification = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs-site` builds it, without network where Linux lets us: dead links and foreign assets end the build."""
    builder.mermaid()
    folder = tmp_path_factory.mktemp("site")
    command = [*without_network(), sys.executable, str(ROOT / "tools" / "build_site.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def without_network() -> list[str]:
    """The command before one that gets a network of its own, with nothing in it."""
    command = ["unshare", "--map-root-user", "--net"]
    is_allowed = shutil.which("unshare") and subprocess.run([*command, "true"], check=False).returncode == 0
    return command if is_allowed else []


def test_every_page_of_the_repository_is_in_the_site(builder: ModuleType, site: Path) -> None:
    pages = [page for page in builder.sources().values() if page.suffix == ".md"]
    assert len(pages) > 30
    assert [str(page) for page in pages if not (site / page.with_suffix(".html")).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    configured = (ROOT / "docs" / "site" / "zensical.toml").read_text()
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages - set(re.findall(r'"([\w/-]+\.md)"', configured)) == set()


def test_the_python_reference_shows_signatures_and_docstrings(site: Path) -> None:
    page = (site / "reference" / "python" / "broker.html").read_text()
    assert 'id="catchment.Broker.bootstrap_servers"' in page
    assert 'id="catchment.read_arrow"' in page
    assert "isolation" in page


def test_the_search_finds_the_pages(site: Path) -> None:
    index = json.loads((site / "search.json").read_text())
    assert any("KIP-848" in json.dumps(item) for item in index["items"])


@pytest.mark.parametrize(
    "text", ["[lost](operations.md#no-such-heading)", "[lost](no-such-page.md)", "::: catchment.no-such-name"]
)
def test_a_dead_link_fails_the_build(builder: ModuleType, tmp_path: Path, text: str) -> None:
    (tmp_path / "pages" / "site").mkdir(parents=True)
    (tmp_path / "pages" / "operations.md").write_text("# Operations\n")
    (tmp_path / "pages" / "index.md").write_text(f"# Start\n\n{text}\n")
    with pytest.raises(builder.Broken, match="no-such"):
        builder.generate(tmp_path)


def test_links_and_assets_of_the_built_pages_are_checked(builder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">1</a><a href="other.html#gone">2</a><a href="gone.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://unpkg.com/one.js"></script><img src="//example.org/a.png">'
    )
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "style.css").write_text("@font-face { src: url(https://fonts.example.org/a.woff2) }")
    (tmp_path / "code.js").write_text('load("https://cdn.example.org/lib.js"); ns = "http://www.w3.org/2000/svg"')
    dead = [line.split(": ")[1] for line in builder.dead_links(tmp_path)]
    assert dead == ["other.html#gone leads nowhere", "gone.html leads nowhere"]
    assert [line.split(": loads ")[1] for line in builder.foreign_assets(tmp_path)] == [
        "https://unpkg.com/one.js",
        "//example.org/a.png",
        "https://fonts.example.org/a.woff2",
        "https://cdn.example.org/lib.js",
    ]


def test_links_of_the_readme_lead_to_pages_of_the_site(builder: ModuleType) -> None:
    text = builder.relinked("[a](docs/guide/arrow.md#x) [b](CHANGELOG.md)", ROOT / "README.md", builder.sources())
    assert text == "[a](guide/arrow.md#x) [b](changelog.md)"
    back = builder.relinked("[c](../CHANGELOG.md)", ROOT / "docs" / "operations.md", builder.sources())
    assert back == "[c](changelog.md)"


def test_without_mermaid_diagrams_are_code(builder: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```mermaid\ngraph LR\n```\n")
    assert builder.staged(page, {page: Path("page.md")}, has_mermaid=False) == "```text\ngraph LR\n```\n"
    assert builder.staged(page, {page: Path("page.md")}, has_mermaid=True) == "```mermaid\ngraph LR\n```\n"


def test_the_mermaid_of_the_site_is_the_one_that_is_pinned(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "CACHE", tmp_path)
    script = tmp_path / f"mermaid-{builder.MERMAID}" / "mermaid.min.js"
    script.parent.mkdir()
    script.write_text("something else")
    with pytest.raises(builder.Broken, match="delete it"):
        builder.mermaid()
    monkeypatch.setattr(builder.shutil, "which", lambda name: None)
    script.unlink()
    assert builder.mermaid() is None
