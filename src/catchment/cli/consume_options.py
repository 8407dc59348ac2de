"""The options of `catchment consume`: from where to read, how far, for whom, and how to print it."""

from enum import StrEnum
from typing import Annotated

import typer


class GroupProtocol(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Isolation(StrEnum):
    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        "-f",
        metavar="POSITION",
        help="beginning, end, an offset, -N for the last N of each partition, an age such as 15m, @MILLISECONDS,"
        " or a time such as 2026-05-01T12:00:00Z.",
        show_default="beginning",
    ),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", "-p", metavar="N", min=0, help="Read only this partition. May be repeated.", show_default="all"
    ),
]
MaxMessages = Annotated[
    int | None, typer.Option("--max-messages", "-n", metavar="N", min=1, help="Stop after this many records.")
]
UntilEnd = Annotated[bool, typer.Option("--until-end", "-e", help="Stop at the end of the log.")]
IdleTimeoutSeconds = Annotated[
    float | None, typer.Option("--idle-timeout", metavar="SECONDS", help="Stop when nothing has come for this long.")
]
OutputFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=r"%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T timestamp, %S and %K lengths.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Read as a member of this consumer group, from its position on, and commit.",
    ),
]
ShareGroup = Annotated[
    str | None,
    typer.Option(
        "--share-group", metavar="GROUP", help="Read as a member of this share group: each record goes to one."
    ),
]
GroupProtocolChoice = Annotated[
    GroupProtocol | None,
    typer.Option(
        "--group-protocol",
        help="How the members of the group share partitions out; consumer is KIP-848.",
        show_default="classic",
    ),
]
CommitIntervalSeconds = Annotated[
    float,
    typer.Option("--commit-interval", min=0, metavar="SECONDS", help="How often a group's position is committed."),
]
IsolationChoice = Annotated[
    Isolation | None,
    typer.Option(
        "--isolation", help="Whether to print what open and aborted transactions wrote, too.", show_default="committed"
    ),
]
