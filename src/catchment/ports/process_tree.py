"""What a process has started.

Gaps
    Where there is no /proc, a process seems to have no descendants.
"""

from __future__ import annotations

from pathlib import Path


def process_tree(pid: int) -> list[int]:
    """The process and its living descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(map(int, children.read_text().split()))
            except OSError:
                # A thread that ended while we looked has no children to count.
                continue
    return found
