"""A client that sends the requests of a test one by one, and returns the answers."""

from __future__ import annotations

import socket
import ssl
from types import TracebackType
from typing import Any, Self

from tests.support.broker.running import PATIENCE_S, RunningBroker
from tests.support.kafka_batches import batch_of
from tests.support.message_values import Fields, Values, decode_response, encode_request
from warren.protocol.api_keys import ApiKey, served
from warren.protocol.headers import Request, request_frame
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import INT32
from warren.protocol.wire_struct import WireStruct


class Caller:
    """One connection."""

    def __init__(self, broker: RunningBroker | tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        address = broker if isinstance(broker, tuple) else broker.broker.advertised
        self._socket = socket.create_connection(address, PATIENCE_S)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
        self._count = 0

    def call(self, key: ApiKey | NativeKey, version: int, values: Values | WireStruct) -> Fields:
        """Returns the answer to a request."""
        self._count += 1
        is_flexible = served(key, version).is_flexible(version)
        body = memoryview(encode_request(key, version, values))
        frame = request_frame(Request(key, version, self._count, "test", body), is_flexible=is_flexible)
        self._socket.sendall(INT32.pack(len(frame)) + frame)
        (size,) = INT32.unpack(self._receive(INT32.size))
        answer = self._receive(size)
        assert INT32.unpack_from(answer) == (self._count,)
        return decode_response(key, version, answer[INT32.size + is_flexible :])

    def shut_down(self) -> None:
        """Ends the connection, also for a thread that waits for an answer."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            assert piece, "the broker closed the connection"
            received += piece
        return received

    def login(self, user: str, password: str) -> int:
        """Logs in with PLAIN. Returns the error."""
        self.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        token = f"\0{user}\0{password}".encode()
        error: int = self.call(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": token}).error_code
        return error

    # --- Requests of producers ---

    def produce(
        self, topic: str, batch: bytes, *, partition: int = 0, transactional_id: str | None = None, version: int = 9
    ) -> tuple[int, int]:
        """The error and the number of the first message."""
        parts = [{"index": partition, "records": batch}]
        values = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 1000}
        answer = self.call(ApiKey.PRODUCE, version, values | {"topic_data": [{"name": topic, "partition_data": parts}]})
        (stored,) = answer.responses[0].partition_responses
        return stored.error_code, stored.base_offset

    def init(self, transactional_id: str | None = None, *, version: int = 4, **values: Any) -> tuple[int, int, int]:
        """The error, the producer's id and its epoch."""
        fields = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000, **values}
        answer = self.call(ApiKey.INIT_PRODUCER_ID, version, fields)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(self, who: tuple[str, int, int], topic: str, *partitions: int, version: int = 3) -> list[int]:
        """Returns the error of each partition that is added to a transaction."""
        names = ("transactional_id", "producer_id", "producer_epoch")
        values = {f"v3_and_below_{name}": value for name, value in zip(names, who, strict=True)}
        topics = [{"name": topic, "partitions": partitions}]
        answer = self.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, values | {"v3_and_below_topics": topics})
        return [part.partition_error_code for part in answer.results_by_topic_v3_and_below[0].results_by_partition]

    def add_group(self, who: tuple[str, int, int], group: str) -> int:
        """Returns the error of adding a group to a transaction."""
        transactional_id, producer_id, epoch = who
        values = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
        error: int = self.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, values | {"group_id": group}).error_code
        return error

    def commit_position(self, who: tuple[str, int, int], group: str, topic: str, number: int) -> int:
        """Returns the error of adding a position that the group gets when the transaction is committed."""
        transactional_id, producer_id, epoch = who
        part = {"partition_index": 0, "committed_offset": number, "committed_leader_epoch": 0}
        values = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
        topics = [{"name": topic, "partitions": [part | {"committed_metadata": "a note"}]}]
        answer = self.call(ApiKey.TXN_OFFSET_COMMIT, 3, values | {"group_id": group, "topics": topics})
        error: int = answer.topics[0].partitions[0].error_code
        return error

    def end(self, who: tuple[str, int, int], *, committed: bool, version: int = 3) -> int:
        """Returns the error of committing or aborting a transaction."""
        transactional_id, producer_id, epoch = who
        values = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
        error: int = self.call(ApiKey.END_TXN, version, values | {"committed": committed}).error_code
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def numbered_batch(producer: tuple[int, int], sequence: int, *values: bytes, is_transactional: bool = False) -> bytes:
    """Returns a batch of a producer with this id and epoch."""
    return batch_of(
        [(None, value, []) for value in values],
        is_transactional=is_transactional,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )


def batch(*bodies: bytes) -> bytes:
    return batch_of([(None, body, []) for body in bodies])


def fetched(caller: Caller, topic: str) -> int:
    """The error of a fetch from the start."""
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    answer = caller.call(ApiKey.FETCH, 11, values | {"topics": [{"topic": topic, "partitions": [part]}]})
    code: int = answer.responses[0].partitions[0].error_code
    return code
