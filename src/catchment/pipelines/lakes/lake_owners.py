"""The owners of a lake, in its own folder, whatever its format: `_catchment/owners/<number>.json`, of which the newest counts.

A file is created only if there is none of its name, so of two claims at once one comes first, and the other sees it. Readers of a
lake skip folders whose names begin with an underscore.

Gaps
    An object store that Arrow reaches does not create a file and check for it in one step.
"""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter

from catchment.pipelines.lakes.errors import LakeAway, LakeRefused
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.ownership.owner import Owner

_FOLDER: Final = "_catchment/owners"
_SUFFIX: Final = ".json"
_LISTS_KEPT: Final = 2
_OWNERS: Final = TypeAdapter(tuple[Owner, ...])


class LakeOwners:
    """Those of one lake."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._claimed: Owner | None = None

    def all(self) -> tuple[Owner, ...]:
        """The queries that own the lake."""
        numbers = self._numbers()
        return _OWNERS.validate_json(self._folder.read(_path(numbers[-1]))) if numbers else ()

    def save(self, owner: Owner, before: tuple[Owner, ...]) -> None:
        """Record an owner beside those that were seen; LakeAway where another claim came in between."""
        numbers = self._numbers()
        if self.all() != before:
            raise self._crowded()
        others = [one for one in before if (one.pipeline, one.query) != (owner.pipeline, owner.query)]
        number = numbers[-1] + 1 if numbers else 0
        try:
            self._folder.create(_path(number), _OWNERS.dump_json((*others, owner)).decode())
        except FileExistsError as cause:
            raise self._crowded() from cause
        self._claimed = owner
        for old in numbers[:-_LISTS_KEPT]:
            self._folder.remove(_path(old))

    def require(self) -> None:
        """Raise where a claim was made, and another has taken its place."""
        if self._claimed is not None and self._claimed not in self.all():
            raise LakeRefused(
                f"the lake {self._folder.location} is now owned by another run, so this one writes no more",
                "Run a pipeline once: stop this run, or the other one.",
            )

    def _numbers(self) -> list[int]:
        stems = [one.removesuffix(_SUFFIX) for one in self._folder.names(_FOLDER) if one.endswith(_SUFFIX)]
        return sorted(int(one) for one in stems if one.isdecimal())

    def _crowded(self) -> LakeAway:
        return LakeAway(f"another run claims the lake {self._folder.location} at this moment", "Try again.")


def _path(number: int) -> str:
    return f"{_FOLDER}/{number}{_SUFFIX}"
