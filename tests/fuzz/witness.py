"""A client of the broker under attack, which must not notice the attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.fuzz.valid import WITNESS_TOPIC
from tests.support.broker.calls import Caller
from tests.support.kafka_batches import batch_of
from tests.support.message_values import Fields
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka.record_batch import RecordBatch, split
from warren.storage.format.kafka_columns import KafkaColumns
from warren.storage.format.layout import SECTION_BODY_ENDS

FETCH_VERSION: Final = 11
METADATA_VERSION: Final = 1


class Witness:
    """Another connection, which puts and fetches all the time: it is never closed, and its order is never broken."""

    def __init__(self, port: int, login: tuple[str, str] | None = None) -> None:
        self._caller = Caller(("127.0.0.1", port))
        self.count = 0
        if login is not None:
            self._caller.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
            token = "\0{}\0{}".format(*login).encode()
            assert self._caller.call(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": token}).error_code == 0

    def step(self) -> None:
        """Puts one message and fetches it."""
        body = b"%d" % self.count
        assert self._caller.produce(WITNESS_TOPIC, batch_of([(None, body, [])])) == (0, self.count)
        assert self._fetch(self.count) == [body]
        self.count += 1

    def _fetch(self, number: int) -> Sequence[bytes]:
        part = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
        topics = [{"topic": WITNESS_TOPIC, "partitions": [part]}]
        values = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics}
        answer: Fields = self._caller.call(ApiKey.FETCH, FETCH_VERSION, values)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == 0
        return [body for batch in split(memoryview(partition.records)) for body in _bodies(batch)]

    def tidy(self) -> None:
        """Deletes every topic except its own, so that strangers lose their topics."""
        answer = self._caller.call(ApiKey.METADATA, METADATA_VERSION, {"topics": None})
        names: list[Any] = [topic.name for topic in answer.topics if topic.name != WITNESS_TOPIC]
        if names:
            self._caller.call(ApiKey.DELETE_TOPICS, 1, {"topic_names": names, "timeout_ms": 1000})

    def close(self) -> None:
        self._caller.__exit__(None, None, None)


def _bodies(batch: RecordBatch) -> list[bytes]:
    columns = KafkaColumns(batch.data, batch.head.record_count)
    return [bytes(body) for body in columns.blobs(SECTION_BODY_ENDS).to_list()]
