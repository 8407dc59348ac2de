"""Timers: each runs once, in the order of the deadlines, at its latest deadline."""

from catchment.coordination.timers import MAX_EXPIRED_PER_RUN, Key, Moment, Timers


def key(name: str) -> Key:
    return ("session", "g", name)


def moment(monotonic_ms: int) -> Moment:
    return Moment(0, monotonic_ms)


class RecordedTimers:
    def __init__(self) -> None:
        self.timers = Timers()
        self.expired: list[str] = []

    def set(self, name: str, deadline_ms: int) -> None:
        self.timers.set(key(name), deadline_ms, lambda _: self.expired.append(name))

    def run(self, monotonic_ms: int) -> list[str]:
        self.timers.run_due(moment(monotonic_ms))
        expired, self.expired = self.expired, []
        return expired


def test_timers_run_once_and_in_order() -> None:
    recorded = RecordedTimers()
    recorded.set("b", 20)
    recorded.set("a", 10)
    assert recorded.timers.next_deadline_ms == 10
    assert recorded.run(9) == []
    assert recorded.run(30) == ["a", "b"]
    assert recorded.run(40) == []
    assert recorded.timers.next_deadline_ms is None


def test_a_later_deadline_replaces_an_earlier_one() -> None:
    recorded = RecordedTimers()
    recorded.set("a", 10)
    recorded.set("a", 30)
    assert recorded.run(20) == []
    assert recorded.run(30) == ["a"]


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    recorded = RecordedTimers()
    recorded.set("a", 30)
    recorded.set("a", 10)
    assert recorded.run(10) == ["a"]
    assert recorded.run(30) == []


def test_a_cancelled_timer_does_not_run() -> None:
    recorded = RecordedTimers()
    recorded.set("a", 10)
    recorded.timers.cancel(key("a"))
    assert recorded.run(10) == []
    recorded.set("a", 20)
    assert recorded.run(20) == ["a"]


def test_an_action_may_set_its_own_timer_again() -> None:
    timers = Timers()
    seen: list[int] = []

    def again(now: Moment) -> None:
        seen.append(now.monotonic_ms)
        timers.set(key("a"), now.monotonic_ms + 10, again)

    timers.set(key("a"), 10, again)
    timers.run_due(moment(15))
    timers.run_due(moment(25))
    assert seen == [15, 25]


def test_a_deadline_that_moves_all_the_time_does_not_fill_the_queue() -> None:
    recorded = RecordedTimers()
    for now_ms in range(10_000):
        recorded.set("a", now_ms + 1000)
        recorded.run(now_ms)
    assert len(recorded.timers) == 1
    assert len(recorded.timers._queue) == 1


def test_timers_beyond_the_limit_of_a_run_stay_due() -> None:
    recorded = RecordedTimers()
    names = [f"{number:03d}" for number in range(MAX_EXPIRED_PER_RUN + 1)]
    for name in names:
        recorded.set(name, 10)
    assert recorded.run(20) == names[:MAX_EXPIRED_PER_RUN]
    assert recorded.timers.next_deadline_ms == 10
    assert recorded.run(20) == names[MAX_EXPIRED_PER_RUN:]
    assert recorded.timers.next_deadline_ms is None
