"""Random commands, lost tails, pruned logs and replays against a small model of dictionaries.

The model keeps the delivery count and state of every offset of each acknowledged state. A replay of the log always yields the
same states, an acknowledged write is never lost, and a fenced leader changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode
from tests.coordination.share_state.share_state_shards import OTHER_TOPIC, TOPIC, LoggedShard

from catchment.coordination.share_state.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, NO_START, StateBatch
from catchment.coordination.share_state.records import ShareKey, ShareState
from catchment.coordination.share_state.shard import ShareStateShard
from catchment.protocol.errors import ApiError

KEYS = tuple(ShareKey(group, topic, 0) for group in ("a", "b") for topic in (TOPIC, OTHER_TOPIC))

keys = st.sampled_from(KEYS)
epochs = st.integers(-1, 3)
offsets = st.integers(0, 12)


@dataclass
class Modelled:
    """A state, offset by offset."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    records: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, batches: list[StateBatch], start_offset: int) -> None:
        if start_offset != NO_START:
            self.start_offset = start_offset
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                said = (batch.delivery_count, batch.delivery_state)
                # A start offset that moves back does not restore what the same write removes.
                if start_offset == NO_START or offset >= start_offset:
                    self.records[offset] = max(self.records.get(offset, (-1, -1)), said)
        self.records = {offset: said for offset, said in self.records.items() if offset >= self.start_offset}


@st.composite
def state_batches(draw: st.DrawFn) -> StateBatch:
    first_offset = draw(offsets)
    state = draw(st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED)))
    return StateBatch(first_offset, first_offset + draw(st.integers(0, 4)), state, draw(st.integers(1, 3)))


class ShareStateMachine(RuleBasedStateMachine):
    @initialize(updates_per_snapshot=st.integers(0, 3))
    def start(self, updates_per_snapshot: int) -> None:
        self.shard = LoggedShard(updates_per_snapshot)
        self.model: dict[ShareKey, Modelled] = {}

    def may_lead(self, key: ShareKey, leader_epoch: int) -> bool:
        return key in self.model and (leader_epoch == -1 or leader_epoch >= self.model[key].leader_epoch)

    @rule(key=keys, state_epoch=epochs, start_offset=st.integers(NO_START, 12))
    def begin(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        known = self.model.get(key)
        outcome = self.shard.initialize(key, state_epoch, start_offset)
        if known is not None and state_epoch != -1 and state_epoch < known.state_epoch:
            assert outcome == [ErrorCode.fenced_state_epoch]
            return
        assert outcome == [ErrorCode.none]
        self.model[key] = Modelled(state_epoch, 0 if known is None else known.leader_epoch, start_offset)

    @rule(
        key=keys,
        state_epoch=epochs,
        leader_epoch=epochs,
        start_offset=st.integers(NO_START, 12),
        batches=st.lists(state_batches(), max_size=3),
    )
    def write(
        self, key: ShareKey, state_epoch: int, leader_epoch: int, start_offset: int, batches: list[StateBatch]
    ) -> None:
        outcome = self.shard.write(
            *batches, key=key, state_epoch=state_epoch, leader_epoch=leader_epoch, start_offset=start_offset
        )
        if key not in self.model:
            assert outcome == [ErrorCode.invalid_request]
        elif not self.may_lead(key, leader_epoch):
            assert outcome == [ErrorCode.fenced_leader_epoch]
        elif state_epoch != -1 and state_epoch < self.model[key].state_epoch:
            assert outcome == [ErrorCode.fenced_state_epoch]
        else:
            assert outcome == [ErrorCode.none]
            self.model[key].take(batches, start_offset)

    @rule(key=keys, leader_epoch=epochs)
    def read(self, key: ShareKey, leader_epoch: int) -> None:
        try:
            state = self.shard.read(key, leader_epoch)
        except ApiError:
            assert not self.may_lead(key, leader_epoch)
            return
        assert self.may_lead(key, leader_epoch)
        self.agree(state, self.model[key])
        if leader_epoch != -1:
            self.model[key].leader_epoch = leader_epoch

    @rule(key=keys)
    def delete(self, key: ShareKey) -> None:
        assert self.shard.delete(key) == [ErrorCode.none]
        self.model.pop(key, None)

    @rule(topic_id=st.sampled_from((TOPIC, OTHER_TOPIC)))
    def delete_topic(self, topic_id: object) -> None:
        self.shard.call(
            lambda shard, _: shard.delete_topics({key.topic_id for key in KEYS if key.topic_id == topic_id})
        )
        self.model = {key: state for key, state in self.model.items() if key.topic_id != topic_id}

    @rule(milliseconds=st.sampled_from((1, 500, 1000)))
    def write_cold_states(self, milliseconds: int) -> None:
        self.shard.pass_time(milliseconds)
        self.shard.call(lambda shard, now: shard.snapshot_cold(1000, now))

    @rule()
    def prune(self) -> None:
        self.shard.prune()

    @rule()
    def crash(self) -> None:
        self.shard.crash()

    @rule(key=keys, batches=st.lists(state_batches(), min_size=1, max_size=3), lost=st.booleans())
    def write_and_crash_before_it_is_safe(self, key: ShareKey, batches: list[StateBatch], lost: bool) -> None:
        self.shard.holds_commits = True
        outcome = self.shard.write(*batches, key=key)
        self.shard.holds_commits = False
        if key in self.model:
            assert outcome == []
        self.shard.crash(self.shard.safe_count if lost else None)
        if not lost and key in self.model:
            self.model[key].take(batches, NO_START)

    @invariant()
    def the_shard_is_what_the_model_says(self) -> None:
        states = self.shard.states()
        assert states.keys() == self.model.keys()
        for key, state in states.items():
            self.agree(state, self.model[key])

    @invariant()
    def a_replay_gives_the_same_states(self) -> None:
        replayed = ShareStateShard(0, lambda _, __: True)
        for key, value in self.shard.log:
            replayed.replay(key, value)
        assert {key: replayed.states.get(key) for key in replayed.states} == self.shard.states()
        assert replayed.states.needed_count <= len(self.shard.log)

    @staticmethod
    def agree(state: ShareState, modelled: Modelled) -> None:
        records = {
            offset: (batch.delivery_count, batch.delivery_state)
            for batch in state.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        assert Modelled(state.state_epoch, state.leader_epoch, state.start_offset, records) == modelled


ShareStateMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestShareState = ShareStateMachine.TestCase
