"""Every operation of the storage × every call that it makes to the disk × every way in which that call can go wrong.

A dry run counts the calls of an operation, so that none is forgotten, and a test fails for an operation that is not in the
table. After an error the log works with correct state, or is offline and reports it. After the end of the process in the
middle of a call, a start finds all that was acknowledged. All of it for both flush policies, with a transaction open, and
again while a compaction waits to be swapped in.

`CATCHMENT_FAULT_SEEDS` is how many power losses follow each end of the process, and asks for every error at every call.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
from tests.storage.faults.disk import Fault, ProcessEnd, Wrong, copy_of
from tests.storage.faults.world import CONFIG, IDEMPOTENT, LATER_MS, OPEN, TOPIC, World
from tests.storage.logs import NOW_MS, TOPIC_ID

from catchment.protocol.errors import ApiError
from catchment.replication.cleaner import CheckpointJob, write_checkpoint
from catchment.storage import layout
from catchment.storage.compaction import plan, rewrite, swap
from catchment.storage.compaction.rewrite import discard
from catchment.storage.directory import LogDirectory
from catchment.storage.log import Log

SEEDS = int(os.environ.get("CATCHMENT_FAULT_SEEDS", "0"))
OTHER = "other"


class Operation(NamedTuple):
    run: Callable[[World], object]
    covers: tuple[str, ...]
    """The methods and functions that it calls of those that must be in the table."""
    arrange: Callable[[World], object] = lambda world: None
    makes_calls: bool = True
    repeats: bool = True
    """Whether it can simply be tried again."""


def _reopen(world: World) -> None:
    """Stop cleanly and start: no index is loaded, no file is open."""
    world.directory.close()
    world.durable = dict(world.current)
    world.directory = world.start(world.disk)


def _roll_next(world: World) -> None:
    """Fill the active segment until the next batch needs another one."""
    count = len(world.log.segments)
    while world.log.segments.active.size + 130 <= CONFIG.segment_bytes:
        world.append()
    assert len(world.log.segments) == count


def _end_all(world: World) -> None:
    world.end_transaction(OPEN, is_commit=True)
    world.log.roll()
    world.append()
    world.sync()


def _begin_other(world: World) -> None:
    log = world.directory.create_log(OTHER, 0, TOPIC_ID, world.config)
    log.append_as_leader(world.batch()[0], 0)
    log.sync()


def _create_other(world: World) -> None:
    """A log of a new topic is empty, whatever an older topic of that name has left."""
    log = world.directory.create_log(OTHER, 0, TOPIC_ID, world.config)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


def _delete_other(world: World) -> None:
    if (OTHER, 0) in world.directory.logs:
        world.directory.delete_log(OTHER, 0)


def _delete_and_create_other(world: World) -> None:
    """As for a topic that is deleted and created again; a failed deletion is logged and skipped."""
    failure: OSError | None = None
    try:
        _delete_other(world)
    except OSError as error:
        failure = error
    _create_other(world)
    if failure is not None:
        raise failure


def _close(world: World) -> None:
    world.is_closed = True
    world.directory.close()


def _stop(world: World) -> None:
    _close(world)
    world.durable = dict(world.current)


def _die(world: World) -> None:
    world.is_closed = True
    world.disk.inner.unlock_all()


def _die_in_a_swap(world: World) -> None:
    """The process ends after some of the names have changed."""
    _end_all(world)
    world.rewrite()
    world.disk.begin(Fault(9, Wrong.END_BEFORE))
    with pytest.raises(ProcessEnd):
        world.swap()
    world.disk.end()
    _die(world)


def _start(world: World) -> None:
    world.disk.inner.unlock_all()
    world.directory = world.start(world.disk)
    world.is_closed = False


def _retain(world: World) -> None:
    log = world.log
    log.apply_retention(LATER_MS, log.synced_offset)


def _keep(retention_ms: int = -1, retention_bytes: int = -1, retention_messages: int = -1) -> Callable[[World], None]:
    def arrange(world: World) -> None:
        world.sync()
        world.config = replace(
            world.config,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            retention_messages=retention_messages,
        )
        world.log.update_config(world.config)

    return arrange


def _leave_a_deleted_log(world: World) -> None:
    _begin_other(world)
    _delete_other(world)


def _advance(world: World) -> None:
    world.log.advance_log_start(9)


def _write_starts_down(world: World) -> None:
    made = world.directory.begin_checkpoint(only_log_starts=True)
    for replacement in made.replacements:
        world.disk.replace_file(*replacement)
    for path in world.directory.end_checkpoint(made):
        world.disk.sync_directory(path)
    world.durable_start = world.log.log_start_offset


def _remove_deleted(world: World) -> None:
    world.log.remove_deleted(LATER_MS)


def _finish_and_sync(world: World) -> None:
    """As a broker prepares its logs for a clean close."""
    log, current = world.log, dict(world.current)
    log.finish()
    group = log.unsynced_group()
    try:
        for directory in group.directories:
            world.disk.sync_directory(directory)
        for file in group.files:
            file.sync()
    except OSError as error:
        log.fail(error)
        raise
    world.disk.replace_file(*log.begin_epoch_flush())
    log.end_epoch_flush()
    log.mark_finished(log.log_end_offset)
    world.durable = current


def _read_everything(world: World) -> None:
    log = world.log
    end_offset = log.log_end_offset
    log.locate(2, 200, end_offset - 1)
    log.read(3, 100, end_offset)
    log.offset_for_timestamp(NOW_MS + 9, end_offset)
    log.offset_of_max_timestamp()
    log.aborted_transactions(0, end_offset)


def _ask_memory(world: World) -> None:
    log = world.log
    log.epoch_end_offset(0)
    assert not log.is_costly(world.batch()[0])
    log.last_stable_offset(log.log_end_offset)
    log.needs_flush(LATER_MS)
    log.now_ms()
    log.update_config(log.config)
    assert log.storage_error(OSError()).code


def _plan(world: World) -> None:
    log = world.log
    dirty = plan.find_dirty_section(log, None, log.log_end_offset, NOW_MS)
    plan.plan(log, dirty, NOW_MS, 1000)


def _prepare_swap(world: World) -> None:
    _end_all(world)
    world.rewrite()


def _write_clean_offsets(world: World) -> None:
    job = CheckpointJob(world.log.directory, f"{world.directory.path}/{layout.CLEANER_OFFSETS}", {(TOPIC, 0): 5})
    for _ in write_checkpoint(world.disk, job):
        pass


def _discard(world: World) -> None:
    assert world.job is not None
    discard(world.disk, world.job)
    world.cleaned = world.cleaned._replace(cleaned=()) if world.cleaned is not None else None


OPERATIONS: dict[str, Operation] = {
    "append": Operation(World.append, ("Log.append_as_leader",)),
    "append after a start": Operation(World.append, ("Log.append_as_leader",), _reopen),
    "append of a known producer": Operation(lambda world: world.append(IDEMPOTENT), ("Log.append_as_leader",), _reopen),
    "append to a transaction": Operation(lambda world: world.append(OPEN), ("Log.append_as_leader",)),
    "append that rolls": Operation(World.append, ("Log.append_as_leader", "Log.roll"), _roll_next),
    "commit": Operation(lambda world: world.end_transaction(OPEN, is_commit=True), ("Log.append_as_leader",), _reopen),
    "abort": Operation(lambda world: world.end_transaction(OPEN, is_commit=False), ("Log.append_as_leader",), _reopen),
    "follow": Operation(lambda world: world.follow(is_aborting=False), ("Log.append_as_follower",), _reopen),
    "follow an abort": Operation(lambda world: world.follow(is_aborting=True), ("Log.append_as_follower",), _reopen),
    "roll": Operation(lambda world: world.log.roll(), ("Log.roll",)),
    "roll after a start": Operation(lambda world: world.log.roll(), ("Log.roll",), _reopen),
    "sync": Operation(World.sync, ("Log.unsynced_group", "Log.mark_synced"), lambda world: world.log.roll()),
    "sync at once": Operation(lambda world: world.log.sync(), ("Log.sync", "Log.fail"), World.append),
    "truncate the end": Operation(lambda world: world.truncate(world.log.log_end_offset - 2), ("Log.truncate_to",)),
    "truncate segments": Operation(lambda world: world.truncate(7), ("Log.truncate_to",)),
    "truncate after a start": Operation(lambda world: world.truncate(13), ("Log.truncate_to",), _reopen),
    "truncate all": Operation(
        lambda world: world.truncate(2), ("Log.truncate_to",), lambda world: world.log.advance_log_start(9)
    ),
    "advance the log start": Operation(_advance, ("Log.advance_log_start",)),
    "write the log starts down": Operation(
        _write_starts_down, ("LogDirectory.begin_checkpoint", "LogDirectory.end_checkpoint"), _advance
    ),
    "retention by time": Operation(_retain, ("Log.apply_retention",), _keep(retention_ms=100)),
    "retention by size": Operation(_retain, ("Log.apply_retention",), _keep(retention_bytes=900)),
    "retention by count": Operation(_retain, ("Log.apply_retention",), _keep(retention_messages=5)),
    "remove deleted segments": Operation(_remove_deleted, ("Log.remove_deleted",), _advance),
    "assign the topic id": Operation(lambda world: world.log.assign_topic_id(TOPIC_ID), ("Log.assign_topic_id",)),
    "read": Operation(
        _read_everything,
        (
            "Log.locate",
            "Log.read",
            "Log.offset_for_timestamp",
            "Log.offset_of_max_timestamp",
            "Log.search_timestamp",
            "Log.search_max_timestamp",
            "Log.aborted_transactions",
        ),
        _reopen,
    ),
    "ask what is in memory": Operation(
        _ask_memory,
        (
            "Log.is_costly",
            "Log.epoch_end_offset",
            "Log.last_stable_offset",
            "Log.needs_flush",
            "Log.now_ms",
            "Log.update_config",
            "Log.storage_error",
        ),
        makes_calls=False,
    ),
    "create a log": Operation(_create_other, ("LogDirectory.create_log",)),
    "delete a log": Operation(_delete_other, ("LogDirectory.delete_log",), _begin_other),
    "delete and create a log": Operation(
        _delete_and_create_other, ("LogDirectory.delete_log",), _begin_other, repeats=False
    ),
    "remove deleted logs": Operation(
        lambda world: world.directory.remove_deleted(LATER_MS),
        ("LogDirectory.remove_deleted",),
        _leave_a_deleted_log,
    ),
    "checkpoint": Operation(
        lambda world: world.directory.checkpoint({(TOPIC, 0): 3}),
        ("LogDirectory.checkpoint", "LogDirectory.begin_checkpoint", "LogDirectory.end_checkpoint"),
    ),
    "finish before a close": Operation(lambda world: world.log.finish(), ("Log.finish",)),
    "finish and sync before a close": Operation(
        _finish_and_sync,
        ("Log.finish", "Log.begin_epoch_flush", "Log.end_epoch_flush", "Log.mark_finished"),
    ),
    "close": Operation(_close, ("LogDirectory.close", "Log.close"), repeats=False),
    "start after a stop": Operation(_start, ("LogDirectory.open_logs",), _stop),
    "start after a kill": Operation(_start, ("LogDirectory.open_logs",), _die),
    "start after a kill in a swap": Operation(
        _start, ("LogDirectory.open_logs", "swap.clear_leftovers"), _die_in_a_swap
    ),
    "plan a compaction": Operation(_plan, ("plan.find_dirty_section", "plan.plan"), _reopen),
    "rewrite": Operation(World.rewrite, ("rewrite.rewrite",), _end_all),
    "discard": Operation(_discard, ("rewrite.discard",), _prepare_swap),
    "swap": Operation(World.swap, ("Log.replace_segments", "plan.find_sources", "swap.swap_files"), _prepare_swap),
    "write down how far a log is clean": Operation(_write_clean_offsets, ()),
}


def _must_be_covered() -> set[str]:
    methods = {
        f"{each.__name__}.{name}"
        for each in (Log, LogDirectory)
        for name, _ in inspect.getmembers(each, inspect.isfunction)
        if not name.startswith("_")
    }
    functions = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (plan, rewrite, swap)
        for name, member in vars(module).items()
        if inspect.isfunction(member) and member.__module__ == module.__name__ and not name.startswith("_")
    }
    return methods | functions


def test_every_operation_of_the_storage_is_in_the_table() -> None:
    covered = {name for operation in OPERATIONS.values() for name in operation.covers}
    assert covered == _must_be_covered()


def _world(operation: Operation, *, sync_acks: bool, is_compacting: bool) -> World:
    world = World(sync_acks=sync_acks)
    operation.arrange(world)
    if is_compacting and not world.is_closed and world.job is None:
        world.rewrite()
    return world


def _kinds(number: int, call: str, *, sync_acks: bool, is_compacting: bool) -> list[Wrong]:
    """In the short form one error a call, a different one from call to call, and the end of the process after it."""
    errors = [Wrong.NO_SPACE, Wrong.BAD_DEVICE, Wrong.NO_DESCRIPTOR]
    if call == "append":
        errors = [*errors, Wrong.SHORT, Wrong.TORN]
    if SEEDS:
        return [*errors, Wrong.END_BEFORE, Wrong.END_AFTER]
    if is_compacting or not sync_acks:
        return [Wrong.END_AFTER if (number + is_compacting) % 2 else errors[-1]]
    errors = errors[3:] or [errors[number % 3]]
    return [*errors, Wrong.END_AFTER, *([Wrong.END_BEFORE] if number == 1 else [])]


@pytest.mark.parametrize(
    ("sync_acks", "is_compacting"),
    [(True, False), (False, False), (True, True), *([(False, True)] if SEEDS else [])],
    ids=["sync acks", "no sync", "while compacting", *(["no sync, while compacting"] if SEEDS else [])],
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_lost_or_wrong_whatever_call_fails(name: str, sync_acks: bool, is_compacting: bool) -> None:
    operation = OPERATIONS[name]
    dry = _world(operation, sync_acks=sync_acks, is_compacting=is_compacting)
    dry.disk.begin(None)
    operation.run(dry)
    calls = dry.disk.calls
    assert bool(calls) is operation.makes_calls
    for number, call in enumerate(calls, start=1):
        for wrong in _kinds(number, call, sync_acks=sync_acks, is_compacting=is_compacting):
            world = _world(operation, sync_acks=sync_acks, is_compacting=is_compacting)
            try:
                _strike(operation, world, Fault(number, wrong), call)
            except BaseException as error:
                error.add_note(f"{name}: call {number} of {len(calls)}, {call}: {wrong.value}")
                raise


def _strike(operation: Operation, world: World, fault: Fault, call: str) -> None:
    world.disk.begin(fault)
    has_ended = False
    error: Exception | None = None
    try:
        operation.run(world)
    except ProcessEnd:
        has_ended = True
    except (ApiError, OSError) as failure:
        error = failure
    assert world.disk.is_struck
    world.disk.end()
    seeds = range(SEEDS or 1)
    # A sync that failed may have lost what was in the page cache alone.
    required = world.durable if call == "sync" else world.current
    if has_ended:
        world.check_restarts(world.current, seeds)
    elif world.is_closed:
        world.check_restarts(required, seeds)
    elif world.log.is_offline:
        assert error is not None
        world.check_offline(required)
        world.check_restarts(required, seeds)
    else:
        _check_online(operation, world, error, seeds)


def _check_online(operation: Operation, world: World, error: Exception | None, seeds: range) -> None:
    world.check_values(world.log, world.current)
    world.check_agrees_with_a_scan(world.disk.inner, world.log)
    if error is not None and operation.repeats:
        operation.run(world)
    if world.cleaned is not None:
        world.swap()
    world.check_goes_on()
    world.check_restarts(world.current, seeds)
    world.directory.close()
    world.check_restart(copy_of(world.disk.inner), world.current)
