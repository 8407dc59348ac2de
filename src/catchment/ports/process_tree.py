"""The descendants of a process.

Gaps
    Without /proc, no descendants are found.
"""

from __future__ import annotations

from pathlib import Path


def process_tree(pid: int) -> list[int]:
    """The ids of the process and its running descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(map(int, children.read_text().split()))
            except OSError:
                # The thread has ended meanwhile.
                continue
    return found
