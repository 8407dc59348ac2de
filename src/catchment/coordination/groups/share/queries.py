"""ShareGroupDescribe: a share group and its members as they stand."""

from __future__ import annotations

from catchment.coordination.groups.share.commands import DescribedShareGroup, DescribedShareMember
from catchment.coordination.groups.share.store import ShareGroups


class ShareQueries:
    __slots__ = ("_groups",)

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def describe(self, group_id: str) -> DescribedShareGroup:
        """The group; ApiError where there is none of this kind."""
        group = self._groups.find(group_id)
        members = []
        for member_id, member in group.members.items():
            current = group.current(member_id)
            members.append(DescribedShareMember(member_id, current.epoch, member, current.assigned))
        return DescribedShareGroup(group.state_name, group.epoch, group.assignment_epoch, tuple(members))
