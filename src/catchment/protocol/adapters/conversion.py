"""Copy a message of one version into the class of another, field by field and recursively.

Fields of the same name are copied, nested structs converted, and fields that only the target has get their defaults. How to do
that is computed once for each pair of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from catchment.protocol.message_fields import message_fields


class _Plan(NamedTuple):
    copied: tuple[str, ...]
    nested: tuple[tuple[str, Any], ...]
    filled: dict[str, Any]
    without_default: frozenset[str]


def lift(source: Any, target_class: Any, **overrides: Any) -> Any:
    """The message as `target_class`. Fields that neither the source nor `overrides` have get their defaults."""
    source_class: Any = type(source)
    if source_class is target_class and not overrides:
        return source
    if not overrides:
        return _lifter(source_class, target_class)(source)
    plan = _plan(source_class, target_class)
    values = {**plan.filled, **{name: getattr(source, name) for name in plan.copied}}
    for name, nested_class in plan.nested:
        if name not in overrides:
            values[name] = _each(lift, getattr(source, name), nested_class)
    return target_class(**{**values, **overrides})


@cache
def _lifter(source_class: Any, target_class: Any) -> Callable[[Any], Any]:
    """A function that lifts without overrides. A request may have tens of thousands of structs, so each slot is set directly.

    That takes less than half the time of the constructor of a frozen dataclass.
    """
    plan = _plan(source_class, target_class)
    copied = [(attrgetter(name), getattr(target_class, name).__set__) for name in plan.copied]
    nested = [(attrgetter(name), getattr(target_class, name).__set__, inner) for name, inner in plan.nested]
    filled = [(getattr(target_class, name).__set__, value) for name, value in plan.filled.items()]
    allocate = target_class.__new__

    def lifted(source: Any) -> Any:
        target = allocate(target_class)
        for get, fill in copied:
            fill(target, get(source))
        for get, fill, inner in nested:
            fill(target, _lift_all(get(source), inner))
        for fill, value in filled:
            fill(target, value)
        return target

    return lifted


def _lift_all(value: Any, nested_class: Any) -> Any:
    if not isinstance(value, tuple):
        return None if value is None else lift(value, nested_class)
    if not value:
        return value
    item_class: Any = type(value[0])
    if item_class is nested_class:
        return tuple([lift(item, nested_class) for item in value])
    lifted = _lifter(item_class, nested_class)
    return tuple([lifted(item) if type(item) is item_class else lift(item, nested_class) for item in value])


def lower(source: Any, target_class: Any, **overrides: Any) -> Any:
    """What kio's writer for `target_class` accepts: copied only as deep as the versions differ.

    Unlike in `lift`, a field that the source does not have needs an explicit default or an override.
    """
    source_class: Any = type(source)
    if is_writable_as(source_class, target_class) and not overrides:
        return source
    plan = _plan(source_class, target_class)
    if missing := plan.without_default - overrides.keys():
        raise TypeError(f"{source_class.__name__} has no {', '.join(sorted(missing))} for {target_class.__name__}")
    values = {**plan.filled, **{name: getattr(source, name) for name in plan.copied}}
    for name, nested_class in plan.nested:
        if name not in overrides:
            values[name] = _each(lower, getattr(source, name), nested_class)
    return target_class(**{**values, **overrides})


def _each(convert: Callable[[Any, Any], Any], value: Any, nested_class: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([convert(item, nested_class) for item in value])
    return None if value is None else convert(value, nested_class)


@cache
def is_writable_as(source_class: Any, target_class: Any) -> bool:
    """Whether kio's writer for the target accepts the source, because the source has every field that it reads.

    A tagged struct must be of the version's own class, because kio omits it only if it equals the default.
    """
    if source_class is target_class:
        return True
    source_structs = {one.name: one.struct for one in message_fields(source_class)}
    for one in message_fields(target_class):
        if one.name not in source_structs:
            return False
        if one.struct is None:
            continue
        if one.tag is not None and not one.is_array:
            return False
        if not is_writable_as(source_structs[one.name], one.struct):
            return False
    return True


@cache
def _plan(source_class: Any, target_class: Any) -> _Plan:
    names = {one.name for one in message_fields(source_class)}
    copied, nested, filled, without_default = [], [], {}, []
    for one in message_fields(target_class):
        if one.name not in names:
            filled[one.name] = one.default_value()
            if one.default is MISSING:
                without_default.append(one.name)
        elif one.struct is None:
            copied.append(one.name)
        else:
            nested.append((one.name, one.struct))
    return _Plan(tuple(copied), tuple(nested), filled, frozenset(without_default))
