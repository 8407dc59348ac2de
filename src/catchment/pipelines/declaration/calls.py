"""The calls by which a Python file declares a pipeline.

A call checks nothing: it records what it was given and the line where it stands, so that all mistakes are reported together.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from catchment.pipelines.errors import Location, Mistake, closest

_FOLDER: Final = os.path.dirname(__file__) + os.sep
_DeclaringCall = TypeVar("_DeclaringCall", bound=Callable[..., Any])


@dataclass
class Part:
    """Something declared for use in a pipeline, with the line of its declaration."""

    declared: dict[str, Any]
    location: Location
    mistakes: list[Mistake] = field(default_factory=list)


def given(arguments: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """The options among the arguments of a call, which are all but the others: those that its caller gave.

    One that is None is left to its default, which the specification has.
    """
    return {name: value for name, value in arguments.items() if value is not None and name not in others}


def caller() -> Location:
    """The line of the author's file that is being run."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_FOLDER) and frame.f_back is not None:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


def declares(function: _DeclaringCall) -> _DeclaringCall:
    """Report an option that a call does not have as a mistake, and leave out a required one that is not given.

    Python itself would raise a TypeError, which ends the file and hides all other mistakes in it. The specification reports what is
    missing. A function returns a `Part`, which holds its mistakes; a method belongs to an object that does.
    """
    parameters = inspect.signature(function).parameters.values()
    options = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    required = {one.name: None for one in options if one.default is inspect.Parameter.empty}
    known = {one.name for one in parameters if one.kind is not inspect.Parameter.VAR_POSITIONAL}
    shown = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        unknown = [name for name in named if name not in known]
        result = function(*arguments, **required | {name: named[name] for name in named if name in known})
        declared = result if isinstance(result, Part) else arguments[0]
        declared.mistakes.extend(Mistake(caller(), _unknown(shown, name, known)) for name in unknown)
        return result

    return cast("_DeclaringCall", call)


def _unknown(call: str, option: str, known: set[str]) -> str:
    close = closest(option, known - {"self"})
    return f"{call}() has no option {option}; {f'did you mean {close}?' if close else 'check its spelling'}"
