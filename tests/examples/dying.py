"""Runs an example that kills its own process at the worst moment, as `kill -9` would.

    python dying.py EXAMPLE MOMENT COUNT [ARGUMENT…]

MOMENT is `before NAME` or `after NAME`; NAME is a function of the example, or a method of a class that it uses, such as
`Consumer.commit` or `sqlite3.Connection.execute`. At the COUNT-th call the process is gone. The example itself knows nothing of this.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any


def load(path: Path) -> ModuleType:
    """The example as a module, found as if it had been started by its path."""
    sys.path.insert(0, str(path.parent))
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def deadly(function: Callable[..., Any], when: str, count: int) -> Callable[..., Any]:
    calls = itertools.count(1)

    def called(*arguments: Any, **options: Any) -> Any:
        is_last = next(calls) == count
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return called


def arm(module: ModuleType, name: str, when: str, count: int) -> None:
    *path, class_name, method = name.split(".") if "." in name else ("", name)
    if not class_name:
        setattr(module, method, deadly(getattr(module, method), when, count))
        return
    for part in path:
        module = getattr(module, part)
    base = getattr(module, class_name)
    armed = deadly(getattr(base, method), when, count)
    # Classes of extension modules cannot be changed, but the example can be given another one.
    replacement = type(class_name, (base,), {method: lambda self, *rest, **more: armed(self, *rest, **more)})
    if base is sqlite3.Connection:
        vars(sqlite3)["connect"] = partial(sqlite3.connect, factory=replacement)
    elif path:
        setattr(base, method, replacement.__dict__[method])
    else:
        setattr(module, class_name, replacement)


def main() -> None:
    path, moment, count, *arguments = sys.argv[1:]
    module = load(Path(path))
    when, name = moment.split()
    arm(module, name, when, int(count))
    sys.argv = [path, *arguments]
    module.main()


if __name__ == "__main__":
    main()
