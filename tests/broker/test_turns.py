"""Long lists yield to the event loop; short ones do not."""

import asyncio

import pytest

from catchment.broker.turns import ITEMS_PER_TURN, Turns, gather_in_turns


async def turns_of_the_loop(work: asyncio.Task[None]) -> int:
    count = 0
    while not work.done():
        await asyncio.sleep(0)
        count += 1
    return count


async def test_items_keep_their_order_and_the_loop_runs_after_every_turn() -> None:
    seen: list[int] = []

    async def work() -> None:
        turns = Turns()
        async for outer in turns(range(30)):
            seen.extend([outer * 100 + inner async for inner in turns(range(100))])

    expected = 30 * 101 // ITEMS_PER_TURN
    assert await turns_of_the_loop(asyncio.create_task(work())) >= expected
    assert seen == list(range(3000))


async def test_a_short_list_does_not_yield() -> None:
    async def work() -> list[int]:
        return [item async for item in Turns()(range(ITEMS_PER_TURN))]

    with pytest.raises(StopIteration) as finished:
        work().send(None)
    assert finished.value.value == list(range(ITEMS_PER_TURN))


async def test_concurrency_is_bounded() -> None:
    running = most = 0

    async def one(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    assert await gather_in_turns((one(number) for number in range(50)), at_once=7) == list(range(50))
    assert most == 7
