"""Environment variables in addresses (`${NAME}`), put in when the pipeline runs, so that no file, plan or status has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from catchment.client.errors import SettingsError
from catchment.pipelines.mistakes import Mistake
from catchment.pipelines.specification import PipelineSpecification

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SQLITE: Final = "sqlite:///"


def with_variables(text: str) -> str:
    """A text with its variables put in; SettingsError names one that is not set."""
    return _VARIABLE.sub(lambda one: _value(one[1]), text)


def expanded(address: str, folder: Path) -> str:
    """An address with its variables put in, and a relative path in it made absolute."""
    text = with_variables(address)
    if text.startswith(_SQLITE) and not text.startswith(f"{_SQLITE}/"):
        return f"{_SQLITE}{(folder / text.removeprefix(_SQLITE)).resolve()}"
    if "://" not in text and not text.startswith("/"):
        return str((folder / text).resolve())
    return text


def missing_variables(specification: PipelineSpecification) -> Iterator[Mistake]:
    """Variables that the pipeline names and that are not set."""
    named = set(_VARIABLE.findall(" ".join(_texts(specification.model_dump()))))
    for name in sorted(named - os.environ.keys()):
        yield Mistake(None, _unset(name))


def _value(name: str) -> str:
    if name not in os.environ:
        raise SettingsError(_unset(name))
    return os.environ[name]


def _unset(name: str) -> str:
    return f"the environment variable {name} is not set"


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for one in tree.values():
            yield from _texts(one)
    elif isinstance(tree, list | tuple):
        for one in tree:
            yield from _texts(one)
