"""Tests beside a pipeline: the section `tests` of its YAML file or of `NAME.tests.yaml`, and Python functions `test_…`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, ValidationError

from catchment.pipelines.declaration.loading import Loaded, load, run_file
from catchment.pipelines.declaration.specification import Declaration
from catchment.pipelines.declaration.yaml_form import TESTS, read_tree
from catchment.pipelines.errors import Mistake, Mistakes
from catchment.pipelines.execution.spark_errors import cause_of
from catchment.pipelines.trials.trial import Trial, UnknownName

_PREFIX: Final = "test_"


def _as_batches(given: Any) -> Any:
    return [given] if isinstance(given, Mapping) else given


class Case(Declaration):
    """One test in YAML."""

    given: Annotated[list[dict[str, list[dict[str, Any] | str | None]]], BeforeValidator(_as_batches)]
    """The rows of sources and tables: one batch, or several in order."""
    expect: dict[str, list[dict[str, Any]]] = Field(min_length=1)
    """The rows of stages, and of `quarantine` and `late`."""


@dataclass(frozen=True)
class Test:
    """A test that can be run; it raises if what it says does not hold."""

    __test__ = False
    """It is no test of pytest's."""

    name: str
    run: Callable[[], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a test."""

    name: str
    seconds: float
    failure: str | None


def tests_of(file: Path) -> list[Test]:
    """All tests beside a pipeline; raises `Mistakes`."""
    loaded = load(file)
    found = list(_yaml_tests(file.with_suffix(".tests.yaml"), loaded))
    if file.suffix == ".py":
        found += _python_tests(file, loaded)
    else:
        found += _yaml_tests(file, loaded)
    for beside in (file.with_name(f"{_PREFIX}{file.stem}.py"), file.with_name(f"{file.stem}_test.py")):
        found += _python_tests(beside, loaded)
    return found


def run_test(test: Test) -> Outcome:
    """Whatever a test raises is its failure."""
    start_s = time.monotonic()
    failure = None
    try:
        test.run()
    except (AssertionError, UnknownName, Mistakes) as error:
        failure = str(error) or "an assertion does not hold"
    except Exception as error:
        failure = str(cause_of(error))
    return Outcome(test.name, time.monotonic() - start_s, failure)


def _yaml_tests(file: Path, loaded: Loaded) -> Iterator[Test]:
    if not file.is_file():
        return
    declared = read_tree(file)
    mistakes = list(declared.mistakes)
    found: list[Test] = []
    tests = declared.tree.get(TESTS) or {}
    if not isinstance(tests, dict):
        mistakes.append(Mistake(declared.location((TESTS,)), f"{TESTS}: they are given by name, not as {tests!r}"))
    for name, tree in tests.items() if isinstance(tests, dict) else ():
        try:
            found.append(Test(str(name), partial(_run_case, Case.model_validate(tree), loaded)))
        except ValidationError as error:
            mistakes += declared.invalid(error, (TESTS, name))
    if mistakes:
        raise Mistakes(mistakes)
    yield from found


def _run_case(case: Case, loaded: Loaded) -> None:
    trial = Trial(loaded.specification, loaded.folder)
    for batch in case.given:
        trial.given(batch)
    failures = []
    for name, rows in case.expect.items():
        try:
            trial.expect(name, rows)
        except AssertionError as error:
            failures.append(str(error))
    if failures:
        raise AssertionError("\n".join(failures))


def _python_tests(file: Path, loaded: Loaded) -> Iterator[Test]:
    if not file.is_file():
        return
    for name, function in vars(run_file(file)).items():
        if name.startswith(_PREFIX) and inspect.isfunction(function):
            said = name.removeprefix(_PREFIX).replace("_", " ")
            yield Test(said, partial(_call, function, loaded))


def _call(function: Callable[..., None], loaded: Loaded) -> None:
    """A function that has a parameter is given a trial of the pipeline."""
    arguments = [Trial(loaded.specification, loaded.folder)] if inspect.signature(function).parameters else []
    function(*arguments)
