"""Environment variables in addresses (`${NAME}`), put in when the pipeline runs, so that no file, plan or status has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any, Final

from catchment.client.errors import SettingsError
from catchment.pipelines.addresses import SQLITE
from catchment.pipelines.mistakes import Path

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def with_variables(text: str) -> str:
    """A text with its variables put in; SettingsError names one that is not set."""
    return _VARIABLE.sub(lambda one: _value(one[1]), text)


def expanded(address: str, folder: FilePath) -> str:
    """An address with its variables put in, and a relative path in it made absolute."""
    text = with_variables(address)
    if text.startswith(SQLITE) and not text.startswith(f"{SQLITE}/"):
        return f"{SQLITE}{(folder / text.removeprefix(SQLITE)).resolve()}"
    if "://" not in text and not text.startswith("/"):
        return str((folder / text).resolve())
    return text


def with_known_variables(text: str) -> str:
    """A text with those of its variables put in that are set, for checks of what can be told already."""
    return _VARIABLE.sub(lambda one: os.environ.get(one[1], one[0]), text)


def has_variables(text: str) -> bool:
    return _VARIABLE.search(text) is not None


def missing_variables(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Variables that declarations name and that are not set, with the keys that lead there."""
    if isinstance(tree, str):
        for name in dict.fromkeys(_VARIABLE.findall(tree)):
            if name not in os.environ:
                yield path, _unset(name)
    elif isinstance(tree, dict):
        for key, one in tree.items():
            yield from missing_variables(one, (*path, key))
    elif isinstance(tree, list | tuple):
        for number, one in enumerate(tree):
            yield from missing_variables(one, (*path, number))


def _value(name: str) -> str:
    if name not in os.environ:
        raise SettingsError(_unset(name))
    return os.environ[name]


def _unset(name: str) -> str:
    return f"the environment variable {name} is not set"
