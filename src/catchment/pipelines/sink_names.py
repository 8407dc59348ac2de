"""The names that sinks have unless they are given one: by what they keep and where, never by their place in the file.

A sink's checkpoint is found by its name. One that got another because a sink was put above it would begin anew.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from typing import Final

from catchment.pipelines.addresses import without_credentials
from catchment.pipelines.specification import LakeSink, StoreSink, TopicSink

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 60
"""A name has 63 characters at most, and a number may follow."""
_DIGEST: Final = 8


def default_names(sink: StoreSink | LakeSink | TopicSink) -> Iterator[str]:
    """The name of a sink, and then those that it may have if others have taken it."""
    match sink:
        case StoreSink():
            parts = (sink.from_, "store", sink.table)
        case LakeSink():
            parts = (sink.from_, "lake", without_credentials(sink.lake).rstrip("/").rpartition("/")[2])
        case TopicSink():
            parts = (sink.from_, "topic", sink.topic)
    name = "-".join(filter(None, (_NOT_IN_NAMES.sub("-", one).strip("-") for one in parts)))
    if len(name) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
        name = f"{name[: _LONGEST - _DIGEST - 1]}-{digest}"
    return itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
