"""The sequence numbers of one partition's producers: which batches are accepted, recognised or refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.kafka_batches import batch_of
from warren.broker.kafka.errors import Code
from warren.broker.kafka.producers import registry as producers
from warren.broker.kafka.producers import sequences as module
from warren.broker.kafka.producers.registry import LogProducers, learn_from, put_once, remembered
from warren.broker.kafka.producers.sequences import REMEMBERED, SEQUENCE_END, Sequences, StoredBatch
from warren.storage import Log
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM
from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.format.layout import KafkaBatchHead

LAST = SEQUENCE_END - 1


def head(sequence: int, count: int = 1, *, producer: int = 1, epoch: int = 0) -> KafkaBatchHead:
    return KafkaBatchHead(0, 100, 0, 2, 0, 0, count - 1, 0, 0, producer, epoch, sequence, count)


def sequences_of(*heads: KafkaBatchHead) -> Sequences:
    sequences = Sequences()
    for number, each in enumerate(heads):
        assert sequences.judge(each) is None
        sequences.take(each, number)
    return sequences


@pytest.mark.parametrize("sequence", [0, 5, LAST])
def test_an_unknown_producer_may_start_with_any_sequence(sequence: int) -> None:
    assert Sequences().judge(head(sequence)) is None


@pytest.mark.parametrize(
    ("earlier", "batch", "expected"),
    [
        ([head(0, 3)], head(3), None),
        ([head(0, 3)], head(4), Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([head(0, 3)], head(2), Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([head(0, 3)], head(0, 2), Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([head(0, 3)], head(0, 3), StoredBatch(0, 2, 0)),
        ([head(LAST)], head(0), None),
        ([head(LAST - 1, 4)], head(2), None),
        ([head(LAST - 1, 4)], head(LAST - 1, 4), StoredBatch(LAST - 1, 1, 0)),
        ([head(LAST)], head(1), Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([head(0, epoch=3)], head(1, epoch=2), Code.INVALID_PRODUCER_EPOCH),
        ([head(0, epoch=3)], head(0, epoch=4), None),
        ([head(0, epoch=3)], head(1, epoch=4), Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([head(0)], head(5, producer=2), None),
        ([], head(-1), Code.INVALID_RECORD),
        ([], head(0, epoch=-1), Code.INVALID_RECORD),
    ],
)
def test_a_batch_is_checked_against_the_batches_before_it(
    earlier: list[KafkaBatchHead], batch: KafkaBatchHead, expected: Code | StoredBatch | None
) -> None:
    assert sequences_of(*earlier).judge(batch) == expected


def test_only_the_last_five_batches_are_recognised_as_repeats() -> None:
    sequences = sequences_of(*(head(number) for number in range(8)))

    verdicts = [sequences.judge(head(number)) for number in range(8)]

    assert verdicts[-REMEMBERED:] == [StoredBatch(number, number, number) for number in range(3, 8)]
    assert set(verdicts[:-REMEMBERED]) == {Code.OUT_OF_ORDER_SEQUENCE_NUMBER}


def test_a_new_epoch_starts_without_history() -> None:
    sequences = sequences_of(head(0), head(1), head(0, epoch=1))

    assert sequences.judge(head(1, epoch=1)) is None
    assert [batch for _, _, batch in sequences.batches()] == [StoredBatch(0, 0, 2)]


def test_the_least_recently_used_producer_is_evicted_first() -> None:
    with patch.object(module, "PRODUCERS_REMEMBERED_MAX", 2):
        sequences = sequences_of(head(0, producer=1), head(0, producer=2), head(1, producer=1), head(0, producer=3))

    assert len(sequences) == 2
    assert sequences.judge(head(9, producer=2)) is None
    assert sequences.judge(head(9, producer=1)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_a_failed_batch_its_sequence_is_expected_again() -> None:
    async def scenario() -> Sequences:
        sequences, loop = sequences_of(head(0)), asyncio.get_running_loop()
        for number in (1, 2, 3):
            sequences.take(head(number), loop.create_future())
        sequences.failed(head(2))
        sequences.stored(head(1), 1)
        sequences.stored(head(3), 7)
        return sequences

    sequences = asyncio.run(scenario())

    assert sequences.judge(head(1)) == StoredBatch(1, 1, 1)
    assert sequences.judge(head(2)) is None
    assert sequences.judge(head(3)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_a_refused_batch_its_sequence_is_expected_again_also_from_an_unknown_producer() -> None:
    sequences = Sequences()

    sequences.refuse(head(5, 2))

    assert sequences.judge(head(5, 2)) is None
    assert sequences.judge(head(7)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_saved_state_can_be_restored() -> None:
    sequences = sequences_of(head(0, 3), head(3, 2), head(LAST, producer=2, epoch=4))

    restored = Sequences()
    restored.restore(json.loads(json.dumps(sequences.to_json())))

    assert restored.to_json() == sequences.to_json()
    assert restored.judge(head(3, 2)) == StoredBatch(3, 4, 1)
    assert restored.judge(head(0, producer=2, epoch=4)) is None
    assert restored.judge(head(1, producer=2, epoch=4)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_in_flight_are_not_part_of_the_saved_state() -> None:
    async def scenario() -> list[Any]:
        sequences = sequences_of(head(0))
        sequences.take(head(1), asyncio.get_running_loop().create_future())
        return sequences.to_json()

    assert asyncio.run(scenario()) == [[1, 0, [[0, 0, 0]]]]


def test_known_batches_are_not_learned_again() -> None:
    sequences = sequences_of(*(head(number) for number in range(8)))

    for number in range(2, 10):
        sequences.learn(head(number), number)
    sequences.learn(head(0, epoch=0, producer=1), 3)

    assert sequences.judge(head(9)) == StoredBatch(9, 9, 9)
    assert sequences.judge(head(10)) is None


def test_without_a_note_only_the_last_blocks_of_a_log_are_scanned(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", block_size=4096, durability="os") as log:
        for number in range(40):
            batch = batch_of([(None, bytes(1000), [])], producer_id=number, producer_epoch=0, base_sequence=0)
            log.append_packed([pack_kafka(batch)])
        with patch.object(producers, "SEQUENCES_LEARN_SIZE_MAX", 8192):
            start, sequences = learn_from(log), remembered(log, SYSTEM_FILE_SYSTEM)

        assert log.block_of(start).base_offset > log.block_of(start - 1).base_offset
        assert {producer for producer, _, _ in sequences.batches()} == set(range(start, 40))
        assert 2 <= len(sequences) <= 12
        assert len(remembered(log, SYSTEM_FILE_SYSTEM)) == 40


def test_an_empty_log_teaches_nothing(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", durability="os") as log:
        assert len(remembered(log, SYSTEM_FILE_SYSTEM)) == 0


def test_batches_of_transactions_are_not_learned(tmp_path: Path) -> None:
    batch = batch_of([(None, b"a", [])], is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    with Log.open(tmp_path / "log", durability="os") as log:
        log.append_packed([pack_kafka(batch)])
        log.append(b"without a producer")

        assert len(remembered(log, SYSTEM_FILE_SYSTEM)) == 0


def test_a_repeat_of_a_batch_in_flight_waits_for_it_and_is_not_stored() -> None:
    puts: list[int] = []

    async def scenario() -> list[tuple[Code, int]]:
        sequences, go = Sequences(), asyncio.Event()

        async def put() -> int:
            puts.append(len(puts))
            await go.wait()
            return 41

        both = [asyncio.create_task(put_once(sequences, head(0), put)) for _ in range(2)]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*both)

    assert asyncio.run(scenario()) == [(Code.NONE, 41)] * 2
    assert puts == [0]


def test_a_note_ends_before_the_batches_in_flight(tmp_path: Path) -> None:
    batch = pack_kafka(batch_of([(None, b"a", [])], producer_id=1, producer_epoch=0, base_sequence=0))

    async def scenario(log: Log) -> list[int]:
        producers, go, ends = LogProducers(Sequences()), asyncio.Event(), []

        async def put() -> int:
            # It is in the log, and its producer has no answer yet.
            numbers = log.append_packed([batch])
            await go.wait()
            return numbers.start

        putting = asyncio.create_task(producers.put(log, head(0), put))
        await asyncio.sleep(0)
        ends.append(producers.note(log.end)["end"])
        go.set()
        await putting
        return [*ends, producers.note(log.end)["end"]]

    with Log.open(tmp_path / "log", durability="os") as log:
        log.append(b"before")

        assert asyncio.run(scenario(log)) == [1, 2]


def test_batches_that_wait_after_a_failed_batch_are_refused() -> None:
    async def scenario() -> list[Any]:
        sequences, go = Sequences(), asyncio.Event()

        async def fail() -> int:
            await go.wait()
            raise OSError

        async def put() -> int:
            return 1

        both = [put_once(sequences, head(0), fail), put_once(sequences, head(1), put)]
        tasks = [asyncio.create_task(each) for each in both]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    failed, refused = asyncio.run(scenario())

    assert isinstance(failed, OSError)
    assert refused == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
