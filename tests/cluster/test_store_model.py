"""The local store against a model that is too simple to be wrong, through random changes, snapshots and power losses."""

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.cluster.local_store import LocalStore
from catchment.ports.coordination import Check, CoordinationError, Create, Delete, Operation, Set
from catchment.ports.memory_disk import MemoryDisk

DIRECTORY = "/data/catchment-metadata"
PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"]

Model = dict[str, tuple[bytes, int]]

versions = st.none() | st.integers(0, 2)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, st.sampled_from(PATHS), st.binary(max_size=8), st.just(False)),
    st.builds(Set, st.sampled_from(PATHS), st.binary(max_size=8), versions),
    st.builds(Delete, st.sampled_from(PATHS), versions),
    st.builds(Check, st.sampled_from(PATHS), st.integers(0, 2)),
)


def applied(model: Model, transaction: list[Operation]) -> Model | None:
    """The model after all operations, or None if one of them must fail."""
    after = dict(model)
    for operation in transaction:
        path = operation.path
        parent = path.rpartition("/")[0]
        if isinstance(operation, Create):
            if path in after or (parent and parent not in after):
                return None
            after[path] = (operation.data, 0)
            continue
        if path not in after or operation.version not in (None, after[path][1]):
            return None
        if isinstance(operation, Set):
            after[path] = (operation.data, after[path][1] + 1)
        elif isinstance(operation, Delete):
            if any(other.startswith(f"{path}/") for other in after):
                return None
            del after[path]
    return after


async def state_of(store: LocalStore, path: str = "") -> Model:
    state: Model = {}
    for name in await store.children(path or "/"):
        node = await store.get(f"{path}/{name}")
        state[f"{path}/{name}"] = (node.data, node.version)
        state |= await state_of(store, f"{path}/{name}")
    return state


async def run(groups: list[list[list[Operation]]], seed: int) -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    store = LocalStore(disk, DIRECTORY, journal_bytes_before_snapshot=200)
    model: Model = {}
    for number, group in enumerate(groups):
        expected = []
        for transaction in group:
            after = applied(model, transaction)
            expected.append(after is not None)
            model = model if after is None else after
        outcomes = await asyncio.gather(*(store.multi(transaction) for transaction in group), return_exceptions=True)
        assert [not isinstance(outcome, BaseException) for outcome in outcomes] == expected
        assert all(isinstance(outcome, CoordinationError | list) for outcome in outcomes)
        assert await state_of(store) == model
        if number % 3 == 2:
            disk = disk.crash(Random(seed + number))
            store = LocalStore(disk, DIRECTORY, journal_bytes_before_snapshot=200)
            assert await state_of(store) == model


@settings(max_examples=150)
@given(
    st.lists(st.lists(st.lists(operations, min_size=1, max_size=5), min_size=1, max_size=4), max_size=12),
    st.integers(0, 1000),
)
def test_the_store_does_what_the_model_does(groups: list[list[list[Operation]]], seed: int) -> None:
    asyncio.run(run(groups, seed))
