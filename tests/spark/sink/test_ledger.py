"""Lists in the checkpoint: whole, once, and gone when they are of no use, on the local file system and through Arrow."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import pytest
from pyarrow import fs

from catchment.client.errors import ClientError, SettingsError
from catchment.client.transaction_outcomes import Witness
from catchment.client.transactions import TransactionHandle
from catchment.spark.checkpoint.files import Files, LocalFiles
from catchment.spark.checkpoint.remote_files import RemoteFiles
from catchment.spark.sink.commit_list import CommitList, Transaction
from catchment.spark.sink.ledger import Ledger
from catchment.spark.sink.two_phase import AlreadyDecided

FOLDER = "sinks/catchment"


def commit_list(batch_id: int, number: int = 0) -> CommitList:
    witness = Witness("orders", "0b7c", 3, 41)
    return CommitList(batch_id, number, "query", 2, (Transaction(TransactionHandle("id", 2**40, 7), 1, 5, witness),))


@pytest.fixture(params=["local", "arrow"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return LocalFiles(tmp_path) if request.param == "local" else RemoteFiles(fs.LocalFileSystem(), f"{tmp_path}/")


def test_what_is_added_is_found_again(files: Files) -> None:
    ledger = Ledger(files)
    assert ledger.newest() == []
    lists = [commit_list(9), commit_list(10), commit_list(10, 1)]
    for one in lists:
        ledger.add(one)
    assert ledger.newest() == lists[1:]
    assert ledger.of(9) == lists[:1]
    assert ledger.of(8) == []


def test_a_list_is_added_once(files: Files, tmp_path: Path) -> None:
    ledger = Ledger(files)
    ledger.add(commit_list(3))
    with pytest.raises(AlreadyDecided):
        ledger.add(commit_list(3))
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["3-0.json"]


def test_lists_of_earlier_batches_and_leftovers_are_forgotten(files: Files, tmp_path: Path) -> None:
    ledger = Ledger(files)
    for one in (commit_list(9), commit_list(9, 1), commit_list(10)):
        ledger.add(one)
    (tmp_path / FOLDER / ".writing-1").write_text("{")
    (tmp_path / FOLDER / "notes.txt").write_text("not ours")
    ledger.forget_before(10)
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == ["10-0.json", "notes.txt"]
    ledger.remove(commit_list(10))
    assert ledger.newest() == []


def test_a_batch_is_finished_when_spark_has_noted_it_or_a_later_one(files: Files, tmp_path: Path) -> None:
    ledger = Ledger(files)
    assert not ledger.is_finished(0)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits/.7.crc").write_text("")
    assert not ledger.is_finished(7)
    (tmp_path / "commits/7").write_text("")
    assert [ledger.is_finished(batch_id) for batch_id in (6, 7, 8)] == [True, True, False]


def test_a_damaged_list_is_not_ignored(files: Files, tmp_path: Path) -> None:
    ledger = Ledger(files)
    ledger.add(commit_list(1))
    path = tmp_path / FOLDER / "1-0.json"
    for text in (path.read_text()[:-5], "[]", "{}", path.read_text().replace('"format": 1', '"format": 2')):
        path.write_text(text)
        with pytest.raises(ClientError, match=r"sinks/catchment/1-0.json (is damaged|has format 2)"):
            ledger.newest()


def test_a_list_that_another_run_sweeps_away_half_written_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(LocalFiles(tmp_path))
    link = os.link

    def link_too_late(source: Path, target: Path) -> None:
        ledger.forget_before(4)
        link(source, target)

    monkeypatch.setattr("os.link", link_too_late)
    with pytest.raises(AlreadyDecided):
        ledger.add(commit_list(4))
    assert ledger.newest() == []


def test_a_file_system_without_hard_links_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(
        SettingsError, match=r"sinks/catchment has no hard links.*Move it to a file system that has them"
    ):
        Ledger(LocalFiles(tmp_path)).add(commit_list(1))


@pytest.mark.parametrize("name", ["check point", "check%20point", "check?point#1"])
def test_the_checkpoint_may_be_a_path_or_a_uri_and_its_name_stands_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    LocalFiles(tmp_path / name).create(f"{FOLDER}/1-0.json", commit_list(1).to_json())
    for checkpoint in (name, f"{tmp_path}/{name}", f"file:{tmp_path}/{name}", f"file://{tmp_path}/{name}"):
        assert Ledger.at(checkpoint).newest() == [commit_list(1)], checkpoint


def test_of_many_drivers_one_decides(tmp_path: Path) -> None:
    # A fork of a process with threads, as that of a test with a session or a client beside it, may wait for one of them for ever.
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        outcomes = pool.starmap(_adds, [(str(tmp_path), batch_id % 25) for batch_id in range(100)], chunksize=1)
    assert sum(outcomes) == 25
    assert len(os.listdir(tmp_path / FOLDER)) == 25


def _adds(checkpoint: str, batch_id: int) -> bool:
    try:
        Ledger.at(checkpoint).add(commit_list(batch_id))
    except AlreadyDecided:
        return False
    return True
