"""The guide to stores works as written: its programs in a folder of their own, from the one that writes to the one that reads."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "stores.md"


def test_the_guide_to_stores_works_as_written(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    reading, writing = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (query,) = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    program = f"{writing}\n{reading}\nprint(table.num_rows)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("[5, 7] [Version(version=1")
    assert last == "2"
    with closing(sqlite3.connect(tmp_path / "city.db")) as reader:
        assert reader.execute(query).fetchall() == [
            ("Harbour", "2026-01-01 13:00:00.000000Z", 7),
            ("Harbour", "2026-01-01 12:00:00.000000Z", 0),
        ]
