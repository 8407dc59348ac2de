"""Deadlines: each fires once, in order, at its latest setting."""

from catchment.coordination.timers import MAX_EXPIRED_PER_RUN, Key, Moment, Timers


def key(name: str) -> Key:
    return ("session", "g", name)


def moment(monotonic_ms: int) -> Moment:
    return Moment(0, monotonic_ms)


class FetchWaiter:
    def __init__(self) -> None:
        self.timers = Timers()
        self.rung: list[str] = []

    def set(self, name: str, deadline_ms: int) -> None:
        self.timers.set(key(name), deadline_ms, lambda _: self.rung.append(name))

    def run(self, monotonic_ms: int) -> list[str]:
        self.timers.run_due(moment(monotonic_ms))
        rung, self.rung = self.rung, []
        return rung


def test_deadlines_ring_once_and_in_order() -> None:
    bell = FetchWaiter()
    bell.set("b", 20)
    bell.set("a", 10)
    assert bell.timers.next_deadline_ms == 10
    assert bell.run(9) == []
    assert bell.run(30) == ["a", "b"]
    assert bell.run(40) == []
    assert bell.timers.next_deadline_ms is None


def test_a_later_setting_counts() -> None:
    bell = FetchWaiter()
    bell.set("a", 10)
    bell.set("a", 30)
    assert bell.run(20) == []
    assert bell.run(30) == ["a"]


def test_an_earlier_setting_counts() -> None:
    bell = FetchWaiter()
    bell.set("a", 30)
    bell.set("a", 10)
    assert bell.run(10) == ["a"]
    assert bell.run(30) == []


def test_what_is_cancelled_does_not_ring() -> None:
    bell = FetchWaiter()
    bell.set("a", 10)
    bell.timers.cancel(key("a"))
    assert bell.run(10) == []
    bell.set("a", 20)
    assert bell.run(20) == ["a"]


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
    bell = FetchWaiter()
    for now_ms in range(10_000):
        bell.set("a", now_ms + 1000)
        bell.run(now_ms)
    assert len(bell.timers) == 1
    assert len(bell.timers._queue) == 1


def test_what_is_too_much_at_once_stays_due() -> None:
    bell = FetchWaiter()
    names = [f"{number:03d}" for number in range(MAX_EXPIRED_PER_RUN + 1)]
    for name in names:
        bell.set(name, 10)
    assert bell.run(20) == names[:MAX_EXPIRED_PER_RUN]
    assert bell.timers.next_deadline_ms == 10
    assert bell.run(20) == names[MAX_EXPIRED_PER_RUN:]
    assert bell.timers.next_deadline_ms is None
