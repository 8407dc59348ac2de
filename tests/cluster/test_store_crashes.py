"""The local store's files, cut and corrupted at every byte: a store opens in a state that it had, or does not open."""

from random import Random

import pytest

from catchment.cluster.journal import DamagedStore
from catchment.cluster.local_store import LocalStore
from catchment.ports.coordination import Create, Delete, Operation, Set
from catchment.ports.memory_disk import MemoryDisk

DIRECTORY = "/data/catchment-metadata"
State = dict[str, tuple[bytes, int]]


async def state_of(store: LocalStore, path: str = "/") -> State:
    state: State = {}
    for name in await store.children(path):
        child = f"{path.rstrip('/')}/{name}"
        node = await store.get(child)
        state[child] = (node.data, node.version)
        state |= await state_of(store, child)
    return state


async def written_journal() -> tuple[str, bytes, list[tuple[int, State]]]:
    """A journal, and the acknowledged state at each of its lengths."""
    disk = MemoryDisk()
    store = LocalStore(disk, DIRECTORY)
    path = f"{DIRECTORY}/{0:020d}.journal"
    history: list[tuple[int, State]] = [(0, {})]
    transactions: list[list[Operation]] = [
        [Create("/a", b"first")],
        [Create("/a/b", b""), Create("/a/c", b"third")],
        [Set("/a/c", b"changed"), Delete("/a/b")],
        [Create("/e", b"ephemeral", ephemeral=True)],
        [Create("/d", b"last")],
    ]
    for changes in transactions:
        await store.multi(changes)
        state = await state_of(store)
        state.pop("/e", None)
        history.append((len(disk.read_file(path)), state))
    return path, disk.read_file(path), history


def disk_with(files: dict[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    for path, data in files.items():
        disk.replace_file(path, data)
    return disk


async def test_a_journal_cut_at_any_byte_opens_with_every_change_that_is_whole() -> None:
    path, data, history = await written_journal()
    for length in range(len(data) + 1):
        disk = disk_with({path: data[:length]})
        store = LocalStore(disk, DIRECTORY)
        assert await state_of(store) == [state for end, state in history if end <= length][-1]
        # The torn tail is cut from the file too: what is written next is found again.
        await store.create("/after", b"")
        assert "/after" in await state_of(LocalStore(disk, DIRECTORY))


async def test_a_flipped_byte_costs_at_most_the_last_change_or_is_reported() -> None:
    path, data, history = await written_journal()
    start_of_last = history[-2][0]
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x5A
        disk = disk_with({path: bytes(damaged)})
        if position < start_of_last:
            with pytest.raises(DamagedStore, match=f"truncate -s .* {path}"):
                LocalStore(disk, DIRECTORY)
        else:
            assert await state_of(LocalStore(disk, DIRECTORY)) == history[-2][1]


async def test_garbage_after_the_journal_is_cut() -> None:
    path, data, history = await written_journal()
    for seed in range(50):
        garbage = Random(seed).randbytes(seed * 7) + data[: seed % 12]
        store = LocalStore(disk_with({path: data + garbage}), DIRECTORY)
        assert await state_of(store) == history[-1][1]


async def test_a_journal_that_another_version_wrote_is_reported_and_a_torn_first_entry_is_not() -> None:
    path, data, _ = await written_journal()
    for foreign in (b"CMJ2" + data[4:12], b"garbage\n"):
        with pytest.raises(DamagedStore, match="not a journal that this version can read"):
            LocalStore(disk_with({path: foreign}), DIRECTORY)
    for torn in (b"", bytes(20), b"CM", b"CM\0\0\0\0"):
        assert await state_of(LocalStore(disk_with({path: torn}), DIRECTORY)) == {}


async def test_a_damaged_snapshot_is_reported_at_every_byte() -> None:
    disk = MemoryDisk()
    store = LocalStore(disk, DIRECTORY, journal_bytes_before_snapshot=1)
    await store.create("/a", b"value")
    await store.close()
    path = f"{DIRECTORY}/snapshot"
    data = disk.read_file(path)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x01
        with pytest.raises(DamagedStore, match="snapshot is damaged"):
            LocalStore(disk_with({path: bytes(damaged)}), DIRECTORY)
        with pytest.raises(DamagedStore, match="snapshot is damaged"):
            LocalStore(disk_with({path: data[:position]}), DIRECTORY)


async def test_power_losses_through_many_snapshots_never_lose_what_was_acknowledged() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    store = LocalStore(disk, DIRECTORY, journal_bytes_before_snapshot=150)
    for number in range(40):
        await store.create(f"/n{number}", b"x" * (number % 17))
        expected = await state_of(store)
        for seed in range(3):
            after = disk.crash(Random(number * 3 + seed))
            assert await state_of(LocalStore(after, DIRECTORY)) == expected
