"""Build the documentation site with Zensical, strictly: `make docs-site`, or `python tools/build_site.py FOLDER`.

FOLDER gets three parts: `pages`, the Markdown as the site has it; `zensical.toml`; and `site`, what is built. The pages are those of
`docs/`, and README, CONTRIBUTING and CHANGELOG from the root of the repository, with their links changed accordingly.

The site loads nothing from other hosts. Mermaid, which draws the diagrams, comes from npm at build time, with its hash checked.
Without npm the diagrams are shown as code.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CACHE = ROOT / ".cache"
MERMAID = "12.3.0"
MERMAID_SHA256 = "336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3"
MERMAID_SECONDS = 120

# Pages outside docs/, and their names in the site.
PAGES_OF_THE_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
COPIED = (".md", ".svg", ".png", ".css")

FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# How the theme names the hosts from which it would load scripts.
FOREIGN_SCRIPT = re.compile(r'"https://(?:unpkg\.com|cdn\.jsdelivr\.net)/([^"]*)"')
# What a script may load: not namespaces, nor pages of code hosts in its comments and messages.
LOADED_BY_SCRIPT = re.compile(
    r"""https?://(?:(?!github\.com/)[^"'`\s]+\.(?:m?js|css|wasm|json|woff2?)\b|(?:unpkg|cdn)\.[^"'`\s]+)"""
)
LOCAL_MERMAID = """new URL("mermaid.min.js",document.querySelector('script[src*="javascripts/bundle"]').src).href"""


class Broken(Exception):
    """The site cannot be built as it is: the message lists why."""


def sources() -> dict[Path, Path]:
    """Every file that the site has, and its path below the folder of pages."""
    found = {ROOT / name: Path(page) for name, page in PAGES_OF_THE_ROOT.items()}
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in COPIED:
            found[path] = path.relative_to(DOCS)
    return found


def stage(pages: Path, *, has_mermaid: bool) -> None:
    """Copy the pages, with links that lead from where they are now."""
    files = sources()
    for source, page in files.items():
        target = pages / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(staged(source, files, has_mermaid=has_mermaid), encoding="utf-8")
        else:
            shutil.copyfile(source, target)


def staged(source: Path, files: dict[Path, Path], *, has_mermaid: bool) -> str:
    """A page as the site has it; code blocks stay as they are."""
    text = source.read_text(encoding="utf-8")
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts.append(relinked(text[end : fence.start()], source, files))
        code = fence.group()
        parts.append(code if has_mermaid else re.sub(r"^(`{3,})mermaid$", r"\1text", code, flags=re.MULTILINE))
        end = fence.end()
    return "".join([*parts, relinked(text[end:], source, files)])


def relinked(prose: str, source: Path, files: dict[Path, Path]) -> str:
    """A link to a file of the site leads to its page. Others stay: the build rejects those that lead nowhere."""

    def page(link: re.Match[str]) -> str:
        target = files.get((source.parent / link[1]).resolve())
        return link[1] if target is None else os.path.relpath(target, files[source].parent)

    return LINK.sub(page, prose)


def mermaid() -> Path | None:
    """The script that draws diagrams, from the cache or from npm; None if there is neither."""
    script = CACHE / f"mermaid-{MERMAID}" / "mermaid.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None or not downloaded(npm, script):
            return None
    if hashlib.sha256(script.read_bytes()).hexdigest() != MERMAID_SHA256:
        raise Broken(f"{script} is not the file of mermaid {MERMAID}: delete it and build again")
    return script


def downloaded(npm: str, script: Path) -> bool:
    script.parent.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"mermaid@{MERMAID}", "--fetch-retries=0", "--pack-destination", str(script.parent)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=MERMAID_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    archive = script.parent / f"mermaid-{MERMAID}.tgz"
    with tarfile.open(archive) as packed:
        # The script comes last: once it is there, the cache is complete.
        for name, target in (("package/LICENSE", script.with_name("LICENSE")), ("package/dist/mermaid.min.js", script)):
            member = packed.extractfile(name)
            if member is None:
                raise Broken(f"{archive} has no {name}")
            unfinished = target.with_suffix(".part")
            unfinished.write_bytes(member.read())
            unfinished.replace(target)
    archive.unlink()
    return True


def build(folder: Path) -> Path:
    """Build the site below a folder and check it; the path of the site."""
    script = mermaid()
    if script is None:
        sys.stderr.write("no npm, or no network: the diagrams are shown as code\n")
    stage(folder / "pages", has_mermaid=script is not None)
    site = generate(folder)
    disconnect(site, script)
    problems = [*dead_links(site), *foreign_assets(site)]
    if problems:
        raise Broken("\n".join(problems))
    return site


def generate(folder: Path) -> Path:
    """Run Zensical on the pages of a folder. A dead link or anchor, or a name that has no docstring to show, ends it."""
    shutil.copyfile(DOCS / "site" / "zensical.toml", folder / "zensical.toml")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(folder / "zensical.toml")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        printed = COLOUR.sub("", done.stdout + done.stderr).partition("Traceback")[0]
        raise Broken(f"zensical build --strict failed:\n{printed}")
    return folder / "site"


def disconnect(site: Path, script: Path | None) -> None:
    """Let the theme load Mermaid from the site, and nothing from other hosts."""
    scripts = site / "assets" / "javascripts"
    if script is not None:
        shutil.copyfile(script, scripts / "mermaid.min.js")
        shutil.copyfile(script.with_name("LICENSE"), scripts / "mermaid.LICENSE")
    is_local = False
    for bundle in scripts.glob("bundle.*.js"):
        text = bundle.read_text(encoding="utf-8")
        is_local |= "unpkg.com/mermaid@" in text
        text = FOREIGN_SCRIPT.sub(lambda url: LOCAL_MERMAID if url[1].startswith("mermaid@") else '""', text)
        bundle.write_text(text, encoding="utf-8")
    if not is_local:
        raise Broken("the theme's bundle does not load Mermaid as it did: see LOCAL_MERMAID in tools/build_site.py")


class Page(HTMLParser):
    """The anchors of a page, the links that it has, and the files that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and "href" in given and given.get("rel") not in ("canonical", "next", "prev"):
            self.assets.append(given["href"])
        self.assets += [given[name] for name in ("src", "srcset", "poster", "data") if name in given]


def parsed(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def dead_links(site: Path) -> list[str]:
    """Links and assets within the site that lead to no file, or to no anchor of a page."""
    pages = parsed(site)
    # The page for addresses that do not exist is shown at any depth, so its links start at the root.
    checked = {path: page for path, page in pages.items() if path.name != "404.html"}
    return [
        f"{path.relative_to(site)}: {link} leads nowhere"
        for path, page in checked.items()
        for link in [*page.links, *page.assets]
        if not (urlsplit(link).scheme or urlsplit(link).netloc) and not leads_somewhere(path, link, pages)
    ]


def leads_somewhere(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors


def foreign_assets(site: Path) -> list[str]:
    """Whatever a browser would load from another host while it shows a page."""
    found = [
        f"{path.relative_to(site)}: loads {asset}"
        for path, page in parsed(site).items()
        for asset in page.assets
        if urlsplit(asset).netloc
    ]
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", text)
        found += [f"{path.relative_to(site)}: loads {url}" for url in loaded]
    for path in sorted(site.rglob("*.js")):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)}: loads {url}" for url in LOADED_BY_SCRIPT.findall(text)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the parts of an earlier build in it are replaced")
    folder: Path = parser.parse_args().folder.resolve()
    for part in ("pages", "site"):
        shutil.rmtree(folder / part, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        site = build(folder)
    except Broken as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"built {site / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
