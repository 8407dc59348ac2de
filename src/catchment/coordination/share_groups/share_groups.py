"""Share groups in a shard of the group coordinator: their records, and all that can be asked of them."""

from __future__ import annotations

from catchment.coordination.shard_state import ShardState
from catchment.coordination.share_groups.commands import ShareTerms
from catchment.coordination.share_groups.initialization import Initialization
from catchment.coordination.share_groups.membership import ShareMembership
from catchment.coordination.share_groups.offsets import ShareGroupOffsets
from catchment.coordination.share_groups.queries import ShareQueries
from catchment.coordination.share_groups.store import ShareGroups
from catchment.coordination.timers import Moment


class ShareGroupCommands:
    __slots__ = ("groups", "initialization", "membership", "offsets", "queries")

    def __init__(self, state: ShardState, terms: ShareTerms) -> None:
        self.groups = ShareGroups(state)
        self.initialization = Initialization(state, self.groups, terms)
        self.membership = ShareMembership(state, self.groups, self.initialization, terms)
        self.offsets = ShareGroupOffsets(state, self.groups)
        self.queries = ShareQueries(self.groups)

    def loaded(self, now: Moment) -> None:
        """All of the log is replayed: begin to live."""
        self.membership.start_sessions(now)
        self.initialization.stop_all_deleting()
