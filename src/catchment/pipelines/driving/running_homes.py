"""Which pipelines of this user run now, wherever their homes are: one link for each, in the user's own folder.

Only who has a pipeline's lock makes or removes its link. What a killed run has left is removed by who finds the lock free.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from catchment.pipelines.home import Home, user_state

_FOLDER: Final = "running"


def note_running(home: Home) -> None:
    """A folder that cannot be written to hides the run from `status` elsewhere, and does no other harm."""
    link = _link(home)
    with suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(home.folder.absolute())


def forget_running(home: Home) -> None:
    with suppress(OSError):
        _link(home).unlink(missing_ok=True)


def noted_homes() -> Iterator[Home]:
    """Those that run, and those whose run was killed."""
    folder = user_state() / _FOLDER
    for link in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(OSError):
            place = Path(os.readlink(link))
            yield Home(place.parent, place.name)


def _link(home: Home) -> Path:
    """Two pipelines of one name in different homes have a link each."""
    name = hashlib.sha256(os.fsencode(home.folder.absolute())).hexdigest()[:32]
    return user_state() / _FOLDER / name
