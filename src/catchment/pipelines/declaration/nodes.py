"""What stages, sinks and alerts read: the sources, tables and stages of a pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from typing_extensions import override

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Arguments = ParamSpec("Arguments")
Rows = TypeVar("Rows", bound="DataFrame")


class Node:
    """A source, table or stage."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Its name in the pipeline."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Source(Node):
    """A stream of events, as `Pipeline.source` returns it."""


class Table(Node):
    """The last value of each key of a topic, as `Pipeline.table` returns it."""


class Stage(Node):
    """Rows computed from rows, as `Pipeline.stage` returns it."""


class FunctionStage(Stage, Generic[Arguments, Rows]):
    """A stage around a function, as the decorator `Pipeline.stage` returns it.

    It stays callable with DataFrames, so that a test may call the function alone. `__wrapped__` is the function itself.
    """

    __wrapped__: Callable[Arguments, Rows]

    def __init__(self, function: Callable[Arguments, Rows], name: str) -> None:
        functools.update_wrapper(self, function)
        super().__init__(name)

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Rows:
        """Compute the rows of the stage from those of its inputs."""
        return self.__wrapped__(*arguments, **named)
