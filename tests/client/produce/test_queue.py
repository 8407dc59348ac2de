"""The order of one partition's batches, for all responses and orders of failures."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from catchment.client.produce.queue import PartitionQueue, ProducerBatch, Verdict, Written

LAST = 2**31 - 1


def filled(count: int, first_sequence: int = 0) -> tuple[PartitionQueue, list[ProducerBatch]]:
    queue = PartitionQueue()
    queue.next_sequence = first_sequence
    batches = []
    for number in range(count):
        batches.append(ProducerBatch(b"%d" % number, 10, queue.next_sequence, 0.0))
        queue.add(batches[-1])
    return queue, batches


def test_sequence_numbers_wrap_around() -> None:
    queue, batches = filled(3, LAST - 14)
    assert [batch.base_sequence for batch in batches] == [LAST - 14, LAST - 4, 5]
    assert queue.next_sequence == 15


def test_after_a_failure_nothing_is_sent_until_all_responses_have_arrived() -> None:
    queue, batches = filled(4)
    queue.acknowledge(queue.take(), 0)
    first, second = queue.take(), queue.take()
    queue.retry(first)
    assert not queue.is_sendable
    queue.retry(second)
    assert [queue.take() for _ in range(3)] == batches[1:]


def test_the_first_batch_is_sent_alone() -> None:
    queue, _ = filled(3)
    first = queue.take()
    assert not queue.is_sendable
    queue.retry(first)
    assert queue.is_sendable
    assert queue.take() == first
    queue.acknowledge(first, 0)
    queue.take()
    assert queue.is_sendable


def test_a_gap_in_the_sequence_is_retriable_only_after_a_failure() -> None:
    queue, _ = filled(2)
    first = queue.take()
    queue.take()
    assert queue.judge(ErrorCode.out_of_order_sequence_number) is Verdict.FAILED
    queue.retry(first)
    assert queue.judge(ErrorCode.out_of_order_sequence_number) is Verdict.RETRY


def test_a_duplicate_counts_as_written() -> None:
    queue, _ = filled(1)
    assert queue.judge(ErrorCode.duplicate_sequence_number) is Verdict.WRITTEN
    queue.acknowledge(queue.take(), -1)
    assert queue.is_done
    assert queue.written == Written(-1, -1, 10)


def test_a_batch_with_a_final_error_is_not_retried() -> None:
    queue, _ = filled(1)
    for code in (ErrorCode.message_too_large, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch):
        assert queue.judge(code) is Verdict.FAILED


@given(st.randoms(use_true_random=False), st.integers(1, 12), st.sampled_from([0, LAST - 25, LAST - 55]))
def test_batches_are_written_in_order_and_each_once(random: Random, count: int, first_sequence: int) -> None:
    queue, batches = filled(count, first_sequence)
    under_way: list[ProducerBatch] = []
    log: list[ProducerBatch] = []
    while not queue.is_done:
        if queue.is_sendable and len(under_way) < 5 and random.random() < 0.6:
            under_way.append(queue.take())
        elif under_way:
            # Batches may be in flight on two connections, so the responses may come in any order.
            batch = under_way.pop(random.choice([0, -1]))
            # A broker without state of a producer accepts any batch, later only the next one; it acknowledges duplicates.
            if batch not in log and (not log or batch == batches[len(log)]) and random.random() < 0.7:
                log.append(batch)
            if batch in log and random.random() < 0.7:
                queue.acknowledge(batch, 10 * log.index(batch))
            else:
                queue.retry(batch)
    assert log == batches
    assert queue.written == Written(0, 10 * count, 10 * count)
