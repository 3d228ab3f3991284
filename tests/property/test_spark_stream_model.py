"""A stream compared with a list: for any puts, any limits of batches and any death of a query, each
message comes once.
"""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from tests.support.examples import examples
from tests.support.spark.reads import Query
from tests.support.store.stores import quick_store

limits: st.SearchStrategy[ReadLimit] = st.one_of(
    st.just(ReadAllAvailable()),
    st.integers(1, 40).map(ReadMaxRows),
    st.integers(1, 3000).map(ReadMaxBytes),
)


class StreamModel(RuleBasedStateMachine):
    """`written` are the expected messages of the stream; `read` are those of committed batches."""

    @initialize(start=st.sampled_from(["earliest", "latest"]), before=st.integers(0, 20))
    def begin(self, start: str, before: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = quick_store(self.folder.name + "/store")
        self.partitions = {"orders": 1}
        self.store.topic("orders", block_size=4096)
        self.written: list[tuple[str, int, int]] = []
        self.read: list[tuple[str, int, int]] = []
        self.is_begun = start == "earliest"
        self._put("orders", 0, before)
        self.query = Query(self.store, topics=None, topicsPattern=".*", startingOffsets=start)

    def _put(self, topic: str, partition: int, count: int) -> None:
        log = self.store.topic(topic).partition(partition)
        numbers = log.append_many([b"%020d" % number for number in range(count)])
        # A stream that starts at the latest must not return messages from before its first batch was planned.
        if self.is_begun:
            self.written += [(topic, partition, number) for number in numbers]

    @rule(data=st.data(), count=st.integers(1, 30), is_alone=st.booleans())
    def put(self, data: Any, count: int, is_alone: bool) -> None:
        topic = data.draw(st.sampled_from(sorted(self.partitions)))
        partition = data.draw(st.integers(0, self.partitions[topic] - 1))
        for each in [1] * min(count, 5) if is_alone else [count]:
            self._put(topic, partition, each)

    @rule(data=st.data())
    def add_partition(self, data: Any) -> None:
        topic = data.draw(st.sampled_from(sorted(self.partitions)))
        if self.partitions[topic] < 3:
            self.partitions[topic] += 1
            self.store.configure_topic(topic, {"partitions": self.partitions[topic]})

    @rule()
    def add_topic(self) -> None:
        if len(self.partitions) < 3:
            name = f"topic{len(self.partitions)}"
            self.store.topic(name)
            self.partitions[name] = 1

    @rule(limit=limits)
    def plan(self, limit: ReadLimit) -> None:
        self.query.plan(limit)
        self.is_begun = True

    @rule(limit=limits)
    def step(self, limit: ReadLimit) -> None:
        self.read += self.query.step(limit) or []
        self.is_begun = True

    @rule()
    def die_in_the_middle_of_a_batch(self) -> None:
        if len(self.query.log) > self.query.committed:
            self.query.run()
        self.query.restart()

    @rule(limit=limits)
    def run_what_is_available_now(self, limit: ReadLimit) -> None:
        self.query.restart()
        self.query.reader.prepareForTriggerAvailableNow()
        self.read += self.query.all(limit)
        self.is_begun = True
        self.query.restart()

    @invariant()
    def nothing_is_read_twice_or_without_being_written(self) -> None:
        if hasattr(self, "read"):
            assert len(set(self.read)) == len(self.read)
            assert set(self.read) <= set(self.written)

    def teardown(self) -> None:
        if not hasattr(self, "read"):
            return
        self.read += self.query.all(ReadMaxRows(25))
        assert sorted(self.read) == sorted(self.written)
        for place in {(topic, partition) for topic, partition, _ in self.read}:
            numbers = [number for topic, partition, number in self.read if (topic, partition) == place]
            assert numbers == sorted(numbers)
        self.query.reader.stop()
        self.store.close()
        self.folder.cleanup()


TestStreamModel = StreamModel.TestCase
TestStreamModel.settings = settings(max_examples=examples(60), stateful_step_count=25)
