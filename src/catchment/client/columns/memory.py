"""Compiling with Numba, and the memory operations of the compiled loops.

Small functions take addresses, not arrays: Numba counts references to an array at every call with one, which took longer than
the decoding. Bytes are copied with memcpy: for a slice, Numba generates a loop over single bytes.

Nothing here checks an address. The callers compare every position and length with the end of their buffer beforehand.
Numba recompiles a cached function when its own file changes, but not when a function that it calls does: a change in this file
needs one in the files of its callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile at the first call and cache the machine code: beside its source, or else in the user's cache directory.

    Numba cannot cache if neither is writable (NUMBA_CACHE_DIR names another directory); then every process compiles.
    """
    try:
        return cast("Callable[Parameters, Result]", numba.njit(function, cache=True, nogil=True, forceinline=True))
    except RuntimeError:
        return cast("Callable[Parameters, Result]", numba.njit(function, nogil=True, forceinline=True))


def _address_of(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(pointer, context.get_value_type(types.int64))

    return types.int64(array), generate


def _load_byte(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = builder.load(builder.inttoptr(arguments[0], cgutils.voidptr_t))
        return builder.zext(byte, context.get_value_type(types.int64))

    return types.int64(types.int64), generate


def _store_byte(typing_context: Any, address: Any, byte: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = builder.trunc(arguments[1], context.get_value_type(types.uint8))
        builder.store(byte, builder.inttoptr(arguments[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _copy_bytes(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    raw_memcpy: Callable[..., None] = cgutils.raw_memcpy

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_pointer, source_pointer = (builder.inttoptr(address, cgutils.voidptr_t) for address in arguments[:2])
        raw_memcpy(builder, target_pointer, source_pointer, arguments[2], itemsize=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


address_of = cast("Callable[[NDArray[Any]], int]", intrinsic(_address_of))
load_byte = cast("Callable[[int], int]", intrinsic(_load_byte))
store_byte = cast("Callable[[int, Any], None]", intrinsic(_store_byte))
copy_bytes = cast("Callable[[int, int, int], None]", intrinsic(_copy_bytes))


@compiled
def append_field(target: int, source: int, length: int) -> int:
    """Copy a field that may be null or empty, and return its size."""
    if length <= 0:
        return 0
    copy_bytes(target, source, length)
    return length
