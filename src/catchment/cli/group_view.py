"""What `catchment group describe` shows: who is in a group, and what each member has."""

from typing import Any

import typer
from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.types import GroupId

from catchment.cli.group_offsets import SHARE, Cluster, Listed
from catchment.cli.output import format_count, print_table
from catchment.cli.requests import GROUP, Coordinator, Requests, refused
from catchment.cli.wire import outcome


def describe_group(cluster: Cluster, group: Listed) -> dict[str, Any]:
    """Everything that the group's coordinator says about it, ready for JSON."""
    if group.kind == SHARE:
        return _describe_share_group(cluster.requests, group)
    futures = cluster.admin.describe_consumer_groups([group.group], request_timeout=cluster.timeout_s)
    found = outcome(futures[group.group], f"cannot describe group {group.group}")
    return {
        "group": group.group,
        "type": group.kind,
        "protocol": group.protocol,
        "state": group.state,
        "assignor": found.partition_assignor,
        "coordinator": None if found.coordinator is None else found.coordinator.id,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": _by_topic([(one.topic, one.partition) for one in member.assignment.topic_partitions]),
            }
            for member in found.members
        ],
    }


def _describe_share_group(requests: Requests, group: Listed) -> dict[str, Any]:
    request = ShareGroupDescribeRequest(group_ids=(GroupId(group.group),), include_authorized_operations=False)
    (found,) = requests.ask(request, to=Coordinator(group.group, GROUP)).groups
    if found.error_code is not ErrorCode.none:
        raise refused(f"cannot describe share group {group.group}", found.error_code, found.error_message)
    return {
        "group": group.group,
        "type": group.kind,
        "protocol": group.protocol,
        "state": found.group_state,
        "assignor": found.assignor_name,
        "coordinator": None,
        "members": [
            {
                "member": member.member_id,
                "instance": None,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": _by_topic(
                    [
                        (one.topic_name, number)
                        for one in member.assignment.topic_partitions
                        for number in one.partitions
                    ]
                ),
            }
            for member in found.members
        ],
    }


def _by_topic(places: list[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return found


def print_group(description: dict[str, Any]) -> None:
    members = description["members"]
    assignor = f"  assignor {description['assignor']}" if description["assignor"] else ""
    typer.echo(
        f"group {description['group']}  {description['type']}  {description['state']}{assignor}  "
        f"{format_count(len(members), 'member')}"
    )
    if members:
        print_table(
            ["member", "instance", "client", "host", "partitions"],
            [
                [
                    member["member"],
                    member["instance"] or "-",
                    member["client"],
                    member["host"],
                    " ".join(
                        f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in member["partitions"].items()
                    )
                    or "-",
                ]
                for member in members
            ],
        )
    typer.echo()
