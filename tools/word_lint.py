"""Report words and phrases that Kafka's, Spark's and Python's documentation would not use: part of `make lint`.

`python tools/word_lint.py [PATH …]` checks the given files and folders, or every tracked file. Identifiers are read as words, so
`as_told_to` and `MortalDisk` are found like prose. `EXEMPT` holds what cannot change because it is stored, sent or quoted.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECKED = (".md", ".py", ".toml", ".yaml", ".yml")

# What is out, as a regular expression over words in lower case, and what to write in its place.
REPLACEMENTS = {
    r"(is|are|was|were|be|been|being|as|gets?) told": "report, return, raise, log",
    r"told (to|by|of|about|that|apart)": "report, return; distinguish",
    r"says? no": "reject",
    r"(anew|afresh)": "again, from scratch, recreate",
    r"(whoever|nobody|somebody|everybody|strangers?|those who)": "the caller, the client, no consumer, any process",
    r"(pass|passes|passed|passing) over": "skip, ignore, drop",
    r"(set|sets|setting|put|puts|putting) aside": "quarantine (pipelines); rename, keep, move",
    r"(kept|keep|keeps|keeping) aside": "quarantine",
    r"reckon\w*": "compute, calculate, count",
    r"(take|takes|took|taking) office": "is elected, becomes controller",
    r"(bell|bells|wish|wishes|abilities|dirt)": "notification, request, capabilities, dirty ratio",
    r"(dice|mortal|blow|blows|whence|lest|befall\w*|heed\w*|twofold)": "randomness, a kill, a plain word",
    r"(fare|fares|fared)": "status",
    r"in few words": "truncate",
    r"unless told": "by default",
    r"what (became|becomes) of": "outcome, result",
    r"(bereft|anybody|foreseen|misfits?|namesake|in vain|as it came|sees to it|thought dead|cannot be had|falls silent)": "a plain word",
    r"(chore|chores|workplace|upkeep)": "periodic task, working directory, maintenance",
}
PATTERN = re.compile(r"\b(?:" + "|".join(f"(?:{phrase})" for phrase in REPLACEMENTS) + r")\b")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# (file, phrase) pairs that stay: this list itself, and names that are stored or sent.
EXEMPT = {("tools/word_lint.py", "*"), ("tests/tools/test_word_lint.py", "*")}


class Finding(NamedTuple):
    path: str
    line: int
    phrase: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.phrase}': write {replacement(self.phrase)}"


def replacement(phrase: str) -> str:
    return next(text for pattern, text in REPLACEMENTS.items() if re.fullmatch(pattern, phrase))


def words_of(line: str) -> str:
    """The line as words in lower case: identifiers are split at underscores and capitals."""
    return " ".join(CAMEL.sub(" ", line.replace("_", " ")).lower().split())


def phrases_in(line: str) -> list[str]:
    return [match.group() for match in PATTERN.finditer(words_of(line))]


def phrases_across(line: str, following: str) -> list[str]:
    """Phrases that begin at the end of one line of prose and end in the next."""
    first = words_of(line)
    both = f"{first} {words_of(following.lstrip(' #>*'))}"
    return [match.group() for match in PATTERN.finditer(both) if match.start() < len(first) < match.end()]


def findings(path: str, text: str) -> Iterator[Finding]:
    lines = text.splitlines()
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True), start=1):
        for phrase in [*phrases_in(line), *phrases_across(line, following)]:
            if not EXEMPT & {(path, phrase), (path, "*")}:
                yield Finding(path, number, phrase)


def tracked_files(paths: list[str]) -> list[str]:
    """The text files that git tracks below the paths, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [name for name in listed.splitlines() if name.endswith(CHECKED) and (ROOT / name).exists()]


def main() -> int:
    found = [
        finding
        for name in tracked_files(sys.argv[1:] or ["."])
        for finding in findings(name, (ROOT / name).read_text())
    ]
    sys.stdout.writelines(f"{finding}\n" for finding in found)
    if found:
        sys.stdout.write(f"{len(found)} phrases to replace: see the section Words in CONTRIBUTING.md\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
