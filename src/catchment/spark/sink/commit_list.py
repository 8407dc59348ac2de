"""The messages with which tasks report their transactions, and the list in which the driver decides to commit them.

A list is written before its first transaction is committed, so any process can commit the others after a crash.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from catchment.client.errors import ClientError
from catchment.client.transaction_outcomes import Witness
from catchment.client.transactions import TransactionHandle

_FORMAT: Final = 1


class Transaction(NamedTuple):
    """One task's transaction: all of the rows of one Spark partition are in it, none of them visible yet."""

    handle: TransactionHandle
    spark_partition: int
    row_count: int
    witness: Witness
    newest_ms: int | None = None
    """The latest time of a record; None where times need not rise from batch to batch."""


class Repeat(NamedTuple):
    """What the driver had found of earlier attempts at the batch when it made the writer."""

    list_count: int = 0
    """How many lists the batch had when the attempt began: the next is the only one that it may write."""
    partition_count: int | None = None
    """How many Spark partitions the batch must have again; None if it makes no difference."""
    floor_ms: int | None = None
    """The earliest time that its records may have; None where times need not rise from batch to batch."""


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What a task has done; without rows, or with rows that are settled already, it has no transaction."""

    spark_partition: int
    query_id: str
    """Or what stands for it in ids of transactions, where a job is decided without a checkpoint."""
    repeat: Repeat
    transaction: Transaction | None
    run_id: str = ""


@dataclass(frozen=True)
class CommitList:
    """The decision to commit these transactions."""

    batch_id: int
    number: int
    """0 for the first list of a batch; a later one replaces what was lost of those before."""
    query_id: str
    partition_count: int
    transactions: tuple[Transaction, ...]
    run_id: str = ""
    """Which run of the query has decided; empty where it is not known."""
    floor_ms: int | None = None
    """The earliest time that the records of the batch may have; None where times need not rise from batch to batch."""

    @property
    def newest_ms(self) -> int | None:
        """The latest time of their records; None if it is not known."""
        times = [one.newest_ms for one in self.transactions if one.newest_ms is not None]
        return max(times) if len(times) == len(self.transactions) and times else None

    def to_json(self) -> str:
        return json.dumps(
            {
                "format": _FORMAT,
                "batch": self.batch_id,
                "number": self.number,
                "query": self.query_id,
                "run": self.run_id,
                "partitions": self.partition_count,
                "floor_ms": self.floor_ms,
                "transactions": [
                    {
                        "handle": one.handle._asdict(),
                        "spark_partition": one.spark_partition,
                        "rows": one.row_count,
                        "witness": one.witness._asdict(),
                        "newest_ms": one.newest_ms,
                    }
                    for one in self.transactions
                ],
            }
        )

    @classmethod
    def from_json(cls, text: str, name: str) -> CommitList:
        """ClientError for what is no such list; `name` says which file that is."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content["format"] != _FORMAT:
                raise ClientError(f"{name} has format {content['format']}", "A newer version of Catchment wrote it.")
            return cls(
                content["batch"],
                content["number"],
                content["query"],
                content["partitions"],
                tuple(
                    Transaction(
                        TransactionHandle(**one["handle"]),
                        one["spark_partition"],
                        one["rows"],
                        Witness(**one["witness"]),
                        one.get("newest_ms"),
                    )
                    for one in content["transactions"]
                ),
                content.get("run", ""),
                content.get("floor_ms"),
            )
        except (ValueError, KeyError, TypeError) as cause:
            raise ClientError(
                f"{name} is damaged", "Restore the checkpoint from a backup, or begin with a new one."
            ) from cause
