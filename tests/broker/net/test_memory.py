"""The memory that clients can make a broker hold is limited, with or without a login and for any requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import time
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

import warren
from tests.support.broker.calls import Caller, batch, fetched
from tests.support.broker.http import running_http
from tests.support.broker.memory import beginning, bomb, joined
from tests.support.broker.running import HOST, PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.native.held_stream import Attempt, HeldStream
from warren.broker.native.queues import AHEAD_SIZE_MAX, HeldQueue
from warren.broker.security.tls import tls_context
from warren.broker.services.batch_checks import BatchChecks
from warren.broker.services.memory_budget import Hold, MemoryBudget, MemoryKind
from warren.broker.services.read_memory import READ_COPIES, READ_GROWTH, READ_UNASKED_SIZE_MAX
from warren.broker.settings import BrokerLimits
from warren.errors import NeedsMemory
from warren.gateway.http.limits import HTTP_BODY_SIZE_MAX
from warren.protocol.api_keys import ApiKey
from warren.protocol.headers import Request, request_frame
from warren.protocol.native.calls import positions_of, wire_positions
from warren.protocol.native_messages import ReadRequest
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import INT32
from warren.protocol.wire_struct import replaced
from warren.storage.format.allowance import allowed
from warren.storage.format.kafka_batch import UnpacksToMore
from warren.storage.read.messages import ScanRoom

MIB = 1 << 20
LIMITS = BrokerLimits(memory_size_max=32 * MIB, frame_size_max=12 * MIB)


def test_incomplete_requests_count_and_are_read_only_as_far_as_they_fit(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, ExitStack() as clients:
        broker = running.broker
        broker.store.topic("orders")

        for _ in range(15):
            clients.enter_context(beginning(broker.advertised, 10 * MIB, 9 * MIB))
        until(lambda: broker.budget.waits == 14)

        assert broker.budget.sizes[MemoryKind.FRAMES] == 10 * MIB
        with Caller(running) as caller:
            # Small requests pass, and so do those that are not among the largest.
            assert caller.produce("orders", batch(b"a")) == (Code.NONE, 0)
            assert caller.produce("orders", batch(bytes(MIB))) == (Code.NONE, 1)
            assert fetched(caller, "orders") == Code.NONE
        clients.close()
        until(lambda: broker.budget.size == 0 and not broker.budget.is_waited_for)


def test_a_request_that_had_to_wait_for_memory_is_served_when_there_is_some(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, ThreadPoolExecutor(1) as pool:
        broker = running.broker
        broker.store.topic("orders", message_size_max=16 * MIB)
        with beginning(broker.advertised, 12 * MIB, MIB) as hog, Caller(running) as caller:
            until(lambda: broker.budget.size == 12 * MIB)
            waiting = pool.submit(caller.produce, "orders", batch(bytes(10 * MIB)))
            until(lambda: broker.budget.is_waited_for)
            assert not waiting.done()
            assert broker.budget.sizes[MemoryKind.FRAMES] == 12 * MIB
            hog.close()

            assert waiting.result(PATIENCE_S) == (Code.NONE, 0)
        until(lambda: broker.budget.size == 0)


def test_a_request_that_stops_coming_is_dropped_with_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "warren.broker")
    limits = BrokerLimits(memory_size_max=32 * MIB, stalled_s_max=0.3)
    with running_broker(tmp_path / "data", limits=limits) as running:
        with beginning(running.broker.advertised, 10 * MIB, MIB) as client:
            assert client.recv(1) == b""

        until(lambda: not running.broker.connections)
        assert (running.broker.budget.size, running.broker.budget.drops) == (0, 1)
    assert f"of {10 * MIB} bytes of a request" in caplog.text


def test_an_idle_connection_is_not_dropped(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=BrokerLimits(stalled_s_max=0.1)) as running, Caller(running) as idle:
        running.broker.store.topic("orders")
        idle.produce("orders", batch(bytes(100_000)))
        with beginning(running.broker.advertised, 10 * MIB, MIB) as client:
            assert client.recv(1) == b""

        assert fetched(idle, "orders") == Code.NONE


def unread_fetch(
    address: tuple[str, int], topic: str, size_max: int, tls: ssl.SSLContext | None = None
) -> socket.socket:
    """A connection that requests messages and does not read them."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(address)
    if tls is not None:
        client = tls.wrap_socket(client, server_hostname=HOST)
    client.sendall(fetch_frame(topic, size_max))
    return client


def fetch_frame(topic: str, size_max: int) -> bytes:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": size_max}
    values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": size_max, "session_epoch": -1}
    body = encode_request(ApiKey.FETCH, 11, values | {"topics": [{"topic": topic, "partitions": [part]}]})
    frame = request_frame(Request(ApiKey.FETCH, 11, 1, "test", memoryview(body)), is_flexible=False)
    return INT32.pack(len(frame)) + frame


def tls_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a broker and of its clients."""
    authority = trustme.CA()
    path, client = folder / "broker.pem", ssl.create_default_context()
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(path))
    authority.configure_trust(client)
    broker = tls_context(str(path))
    assert broker is not None
    return broker, client


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_answers_that_are_not_taken_count_get_smaller_and_their_clients_are_dropped(
    tmp_path: Path, is_tls: bool
) -> None:
    limits = BrokerLimits(memory_size_max=64 * MIB, stalled_s_max=3.0)
    tls, client_tls = tls_contexts(tmp_path) if is_tls else (None, None)
    with running_broker(tmp_path / "data", limits=limits, tls=tls) as running, ExitStack() as clients:
        broker = running.broker
        topic = broker.store.topic("large")
        for _ in range(32):
            topic.put(bytes(MIB))
        broker.store.topic("small").put(b"a")

        for _ in range(8):
            clients.enter_context(unread_fetch(broker.advertised, "large", 24 * MIB, client_tls))
        until(lambda: ApiKey.FETCH in broker.metrics.apis and broker.metrics.apis[ApiKey.FETCH].requests == 8)

        assert 8 * MIB < broker.budget.sizes[MemoryKind.ANSWERS] < 24 * MIB
        with Caller(running, client_tls) as caller:
            assert fetched(caller, "small") == Code.NONE
        until(lambda: broker.budget.sizes[MemoryKind.ANSWERS] < 8 * MIB)
        assert broker.budget.drops > 0
        clients.close()
        until(lambda: broker.budget.size == 0)


# --- Reads of our own clients ---


def read_frame(topic: str, **options: Any) -> bytes:
    values = {"topic": topic, "positions": wire_positions({0: 0}), "limit": 256} | options
    body = memoryview(encode_request(NativeKey.READ, 0, values))
    frame = request_frame(Request(NativeKey.READ, 0, 1, "test", body), is_flexible=True)
    return INT32.pack(len(frame)) + frame


LARGE_SIZE = 12 * MIB
"""More than a read may use without reserving memory, but small when packed."""


def put_large(running: RunningBroker | tuple[str, int], topic: str, compression: int = 4) -> None:
    with Caller(running) as caller:
        body = bytes(LARGE_SIZE)
        assert caller.produce(topic, batch_of([(None, body, [])], compression=compression))[0] == Code.NONE


@pytest.mark.parametrize("options", [{}, {"is_backwards": True}], ids=["forwards", "backwards"])
def test_reads_of_messages_that_unpack_to_much_wait_for_memory(tmp_path: Path, options: dict[str, Any]) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, ExitStack() as clients:
        broker = running.broker
        broker.store.topic("large", message_size_max=16 * MIB)
        broker.store.topic("small").put(b"a")
        put_large(running, "large")

        for _ in range(8):
            client = clients.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(broker.advertised)
            client.sendall(read_frame("large", **options) * 2)
        until(lambda: broker.budget.waits >= 7)

        # One needs more than the limit with its copies, and is read alone.
        assert broker.budget.size < READ_COPIES * READ_GROWTH * READ_UNASKED_SIZE_MAX + MIB
        with Caller(running) as caller:
            assert fetched(caller, "small") == Code.NONE
        clients.close()
        until(lambda: broker.budget.size == 0 and not broker.budget.is_waited_for)


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_clients_that_take_their_answers_all_read_a_message_that_needs_much_memory(
    tmp_path: Path, compression: int
) -> None:
    with running_broker(tmp_path / "data", limits=BrokerLimits(memory_size_max=32 * MIB)) as running:
        broker = running.broker
        broker.store.topic("large", message_size_max=16 * MIB)
        put_large(running, "large", compression)

        def size_read(_: int) -> int:
            with warren.connect(running.address) as store:
                return len(store.topic("large").partition(0).read(0)[0].body)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(size_read, range(4))) == 4 * [LARGE_SIZE]
        until(lambda: broker.budget.size == 0)


def test_groups_get_large_messages_once_each_and_no_attempt_counts_twice(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running:
        broker = running.broker
        broker.store.topic("large", message_size_max=16 * MIB)
        bodies = [b"a", b"b", bytes(LARGE_SIZE), b"c", bytes(LARGE_SIZE), b"d"]
        with Caller(running) as caller:
            for body in bodies:
                caller.produce("large", batch_of([(None, body, [])], compression=4))
        with warren.connect(running.address) as store:
            topic = store.topic("large")
            stream, queue = topic.group("stream"), topic.group("queue", mode="queue")

            read, attempts = list[bytes](), list[tuple[int, int, int]]()
            while len(read) < len(bodies):
                read += [message.body for message in stream.read(10)]
            while len(attempts) < len(bodies):
                attempts += [(message.number, len(message.body), message.attempt) for message in queue.take(10)]

        assert read == bodies
        assert sorted(attempts) == [(number, len(body), 1) for number, body in enumerate(bodies)]
        until(lambda: broker.budget.size == 0)


def held_bytes(work: Callable[[], object]) -> tuple[int, int]:
    """Returns how many bytes Python holds more after `work`, and at most during it."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    work()
    gc.collect()
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before, peak - before


def test_reads_that_may_be_repeated_are_remembered_without_their_messages(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os", keeps=False) as store:
        topic = store.topic("orders", 2)
        for number in range(40):
            topic.put(bytes(MIB), partition=number % 2)
        held_stream, last = HeldStream(topic.group("billing")), Attempt()

        def read() -> None:
            for serial in range(1, 11):
                held_stream.begin(serial, last, serial)
                messages = held_stream.read(serial, last, 1000, 2 * MIB, ScanRoom())
                assert messages is None or len(messages.numbers) <= 3

        size, peak = held_bytes(read)

        assert size < MIB
        assert peak < 12 * MIB
        # The messages of the last read are read again.
        before = held_stream.group.read_positions()
        held_stream.begin(10, Attempt(1), 10)
        assert sum(before.values()) - sum(held_stream.group.read_positions().values()) == 2
        held_stream.close()


def test_a_read_backwards_returns_no_more_bytes_than_requested(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running, warren.connect(running.address) as client:
        topic = running.broker.store.topic("orders")
        for number in range(20):
            topic.put(b"%d" % number * (MIB // 4), tag="even" if number % 2 == 0 else "odd")
        request = ReadRequest("orders", wire_positions({0: 19}), "even", is_backwards=True, limit=256, bytes_max=1000)

        answer = client.calls.call(request)
        numbers = [message.number for message in client.topic("orders").partition(0).backwards()]

        assert list(answer.messages.numbers) == [18]
        assert positions_of(answer.positions) == {0: 17}
        assert numbers == list(range(20))[::-1]
        nothing = client.calls.call(replaced(request, positions=wire_positions({0: 0}), tag="odd"))
        assert list(nothing.messages.numbers) == []
        assert positions_of(nothing.positions) == {0: -1}


def test_going_backwards_reads_few_large_messages_at_a_time(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os", keeps=False) as store:
        log = store.topic("orders").partition(0)
        for _ in range(30):
            log.append(bytes(MIB))
        for _ in range(3):
            log.append(b"small")

        _, peak = held_bytes(lambda: [message.number for message in log.backwards()])

        assert peak < 10 * MIB


# --- Transactions of our own clients ---


def test_open_transactions_beyond_the_limit_wait_in_the_journal_and_are_committed_whole(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, warren.connect(running.address) as client:
        budget = running.broker.budget
        client.topic("orders")
        opened = [client.transaction() for _ in range(30)]

        for number, transaction in enumerate(opened):
            transaction.put("orders", b"%d " % number + bytes(MIB))

        assert 4 * MIB < budget.sizes[MemoryKind.TRANSACTIONS] < 8 * MIB
        for transaction in opened:
            transaction.put("orders", b"last")
            transaction.commit()
        assert budget.sizes[MemoryKind.TRANSACTIONS] == 0
        messages = client.topic("orders").partition(0).read(0, limit=100)
        bodies = [message.body[:3].strip(b"\0 ") for message in messages]
        assert bodies == [part for number in range(30) for part in (b"%d" % number, b"las")]


def test_transactions_of_a_disconnected_client_hold_no_memory(tmp_path: Path) -> None:
    limits = BrokerLimits(memory_size_max=32 * MIB, stalled_s_max=1.0)
    with running_broker(tmp_path / "data", limits=limits) as running:
        with warren.connect(running.address) as client:
            client.topic("orders")
            for _ in range(3):
                client.transaction().put("orders", bytes(MIB))
            assert running.broker.budget.sizes[MemoryKind.TRANSACTIONS] > 2 * MIB

        until(lambda: running.broker.budget.size == 0)


# --- Members of Kafka's groups ---


def test_the_metadata_of_members_is_limited_for_each_and_in_total(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, Caller(running) as caller:
        budget = running.broker.budget

        assert joined(caller, "too-much", MIB) == Code.INVALID_REQUEST
        errors = [joined(caller, f"group-{number}", 200 << 10) for number in range(60)]

        assert errors[0] == Code.NONE
        assert errors[-1] == Code.COORDINATOR_NOT_AVAILABLE
        assert 6 * MIB < budget.sizes[MemoryKind.MEMBERS] < 8 * MIB
        assert budget.refusals > 0
        # Members with little metadata still have room.
        assert joined(caller, "another", 100) == Code.NONE


def test_members_of_a_group_that_go_give_their_memory_back(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running, Caller(running) as caller:
        budget = running.broker.budget
        values = {
            "group_id": "group",
            "session_timeout_ms": 100,
            "rebalance_timeout_ms": 100,
            "member_id": "",
            "protocol_type": "own",
            "protocols": [{"name": "range", "metadata": bytes(100_000)}],
        }

        assert caller.call(ApiKey.JOIN_GROUP, 2, values).error_code == Code.NONE

        assert budget.sizes[MemoryKind.MEMBERS] > 100_000
        until(lambda: budget.size == 0)


@pytest.mark.parametrize(
    ("key", "version", "more"),
    [
        (
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            0,
            {"instance_id": None, "rebalance_timeout_ms": 60_000, "server_assignor": None, "topic_partitions": []},
        ),
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1, {}),
    ],
)
def test_names_that_members_subscribe_to_are_bounded(
    tmp_path: Path, key: ApiKey, version: int, more: dict[str, Any]
) -> None:
    limits = BrokerLimits(memory_size_max=4 * MIB)
    with running_broker(tmp_path / "data", limits=limits) as running, Caller(running) as caller:
        budget, names = running.broker.budget, [f"{number:0200}" for number in range(1000)]

        def beat(number: int, names: list[str], epoch: int = 0) -> int:
            values = {
                "group_id": f"group-{number}",
                "member_id": f"{number:022}",
                "member_epoch": epoch,
                "rack_id": None,
                "subscribed_topic_names": names,
                **more,
            }
            code: int = caller.call(key, version, values).error_code
            return code

        errors = [beat(number, names) for number in range(12)]

        assert (errors[0], errors[-1]) == (Code.NONE, Code.COORDINATOR_NOT_AVAILABLE)
        assert 800_000 < budget.sizes[MemoryKind.MEMBERS] < MIB
        assert beat(100, ["orders"]) == Code.NONE
        for number, error in enumerate(errors):
            if error == Code.NONE:
                beat(number, names, -1)
        beat(100, ["orders"], -1)
        until(lambda: budget.size == 0)


# --- Unpacked batches, and HTTP ---


@pytest.mark.parametrize("compression", [1, 4])
def test_a_batch_that_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path, compression: int) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, Caller(running) as caller:
        budget = running.broker.budget
        running.broker.store.topic("orders")

        assert caller.produce("orders", bomb(40 * MIB, compression))[0] == Code.MESSAGE_TOO_LARGE
        assert caller.produce("orders", bomb(20 * MIB, compression)) == (Code.NONE, 0)

        assert budget.sizes[MemoryKind.UNPACKED] == 0
        until(lambda: budget.size == 0)


def test_batches_are_unpacked_one_at_a_time_and_counted_during_it() -> None:
    budget = MemoryBudget(100 * MIB)
    sizes: list[tuple[int, int]] = []

    def work(size_max: int) -> str:
        sizes.append((size_max, budget.sizes[MemoryKind.UNPACKED]))
        if size_max < 64 * MIB:
            raise UnpacksToMore("much")
        return "done"

    async def run() -> list[str]:
        unpacking = BatchChecks(budget)
        try:
            return list(await asyncio.gather(*(unpacking.run("ann", work) for _ in range(3))))
        finally:
            unpacking.close()

    assert asyncio.run(run()) == ["done"] * 3
    assert sizes == [(16 * MIB, 16 * MIB), (64 * MIB, 64 * MIB)] * 3
    assert budget.size == 0


def test_no_batch_is_unpacked_while_a_large_unpacked_one_is_put() -> None:
    budget = MemoryBudget(100 * MIB)
    events: list[str] = []

    async def put(unpacking: BatchChecks, name: str, size: int, end: asyncio.Event) -> None:
        def work(size_max: int) -> int:
            events.append(f"{name} unpacks")
            return size

        async with unpacking.kept("ann", work, lambda result: result):
            events.append(f"{name} holds {budget.sizes[MemoryKind.UNPACKED] // MIB} MiB")
            await end.wait()
        events.append(f"{name} has put")

    async def run() -> None:
        unpacking, end = BatchChecks(budget), asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, size in (("small", 1), ("large", 20), ("third", 1)):
                    tasks.create_task(put(unpacking, name, size * MIB, end))
                while len(events) < 4 or unpacking._has_room.is_set():
                    await asyncio.sleep(0)
                checked = tasks.create_task(unpacking.run("ann", lambda size_max: events.append("checks")))
                end.set()
            assert checked.done()
        finally:
            unpacking.close()

    asyncio.run(run())
    assert events[:4] == ["small unpacks", "small holds 1 MiB", "large unpacks", "large holds 21 MiB"]
    assert events.index("large has put") < events.index("third unpacks") < events.index("checks")
    assert budget.size == 0


def test_a_put_that_fails_gives_back_the_memory_of_its_unpacked_batches() -> None:
    budget = MemoryBudget(100 * MIB)

    async def run() -> None:
        unpacking = BatchChecks(budget)
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="disk"):
                    async with unpacking.kept("ann", lambda size_max: 20 * MIB, lambda size: size):
                        raise OSError("disk")
        finally:
            unpacking.close()

    asyncio.run(run())
    assert budget.size == 0


def delayed_batch(size: int, compression: int, count: int = 1) -> bytes:
    """A batch of delayed records of `size` zeros."""
    headers = [("warren.deliver-at", b"%d" % (round(time.time() * 1000) + 3_600_000))]
    return batch_of([(None, bytes(size), headers)] * count, compression=compression)


@pytest.mark.parametrize(("size", "batch_count", "count"), [(10 * MIB, 4, 1), (0, 1, 100_000)])
def test_delayed_records_of_a_request_that_take_more_than_the_limit_together_are_refused(
    tmp_path: Path, size: int, batch_count: int, count: int
) -> None:
    with running_broker(tmp_path / "data", limits=LIMITS) as running, Caller(running) as caller:
        topic = running.broker.store.topic("orders", deliver_at="all")
        one = delayed_batch(size, 1, count)

        assert caller.produce("orders", one * batch_count)[0] == Code.MESSAGE_TOO_LARGE
        assert list(topic.scheduled(limit=1)) == []

        assert caller.produce("orders", delayed_batch(size, 1))[0] == Code.NONE
        assert len(list(topic.scheduled(limit=10))) == 1
        until(lambda: running.broker.budget.size == 0)


def test_http_bodies_that_announce_too_many_bytes_are_refused_and_small_ones_pass(tmp_path: Path) -> None:
    with (
        running_http(tmp_path / "data", limits=BrokerLimits(memory_size_max=8 * MIB)) as served,
        ExitStack() as clients,
    ):
        budget = served.broker.budget
        served.broker.store.topic("orders")
        head = f"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        for _ in range(2):
            client = clients.enter_context(socket.create_connection((HOST, served.port), PATIENCE_S))
            client.sendall(f"{head}Content-Length: {3 * MIB}\r\n\r\n".encode())
        until(lambda: budget.sizes[MemoryKind.REQUESTS] == 6 * MIB)

        third = clients.enter_context(socket.create_connection((HOST, served.port), PATIENCE_S))
        third.sendall(f"{head}Content-Length: {3 * MIB}\r\n\r\n".encode())

        assert b" 503 " in third.recv(100)
        assert served.put("orders", "a")
        assert budget.refusals == 1
        clients.close()
        until(lambda: budget.size == 0)


@pytest.mark.parametrize("path", ["messages?partition=0", "messages?backwards=true", "messages/0/0"])
def test_reads_over_http_of_messages_that_unpack_to_much_wait_for_memory(tmp_path: Path, path: str) -> None:
    with running_http(tmp_path / "data", limits=BrokerLimits(memory_size_max=32 * MIB)) as served:
        budget = served.broker.budget
        served.broker.store.topic("large", message_size_max=16 * MIB)
        put_large(served.broker.advertised, "large")

        def status(_: int) -> int:
            return served.ask("GET", f"/v1/topics/large/{path}").status

        with ThreadPoolExecutor(4) as pool:
            # It is too large for a reply over HTTP, but is unpacked before that is known.
            assert list(pool.map(status, range(4))) == 4 * [413]

        assert budget.waits > 0
        until(lambda: budget.size == 0)


@pytest.mark.parametrize("read", ["take", "dead", "queue"])
def test_takes_dead_letters_and_items_of_queues_that_are_large_take_memory_from_the_budget(
    tmp_path: Path, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_http(tmp_path / "data", limits=BrokerLimits(memory_size_max=32 * MIB)) as served:
        budget, reservations = served.broker.budget, list[int]()
        ask = budget.ask

        def noted(who: object, kind: MemoryKind, size: int, *others: Any) -> Hold | None:
            reservations.append(size)
            return ask(who, kind, size, *others)

        topic = served.broker.store.topic("large", block_size=32 * MIB)
        topic.put(bytes(LARGE_SIZE))
        if read == "dead":
            with topic.group("workers", mode="queue") as workers:
                workers.reject(workers.take_within(1, ScanRoom())[0])
        monkeypatch.setattr(budget, "ask", noted)

        if read == "take":
            assert served.ask("POST", "/v1/topics/large/groups/workers/take", {}).status == 413
        elif read == "dead":
            document = served.ask("GET", "/v1/topics/large/groups/workers/dead").document
            assert [letter["message"]["body"] for letter in document["dead"]] == [None]
        else:
            with warren.connect(served.running.address) as store:
                queue = store.queue("items", codec="bytes", block_size=32 * MIB)
                queue.put(bytes(LARGE_SIZE))
                reservations.clear()
                assert len(queue.get()) == LARGE_SIZE

        assert max(reservations) >= READ_COPIES * LARGE_SIZE
        until(lambda: budget.size == 0)


def test_a_take_of_messages_that_are_larger_than_those_before_stays_within_its_limit(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os") as store:
        topic = store.topic("growing")
        topic.put_many([b"small"] * 10)
        for _ in range(30):
            topic.put(bytes(MIB // 4))
        group = topic.group("workers", mode="queue")

        with allowed(MIB):
            assert len(group.take_within(10, ScanRoom())) == 10
            with pytest.raises(NeedsMemory):
                group.take_within(30, ScanRoom())
            messages = [group.take_within(1, ScanRoom())[0] for _ in range(30)]

        assert [(message.number, message.attempt) for message in messages] == [(number, 1) for number in range(10, 40)]


def test_messages_that_were_given_back_for_lack_of_memory_do_not_count(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os") as store:
        topic = store.topic("growing")
        topic.put_many([b"small"] * 4)
        for _ in range(6):
            topic.put(bytes(3 * MIB))
        group = topic.group("workers", mode="queue")

        with allowed(8 * MIB):
            group.take_within(4, ScanRoom())
            with pytest.raises(NeedsMemory):
                group.take_within(6, ScanRoom())
            assert len(group.take_within(1, ScanRoom())[0].body) == 3 * MIB


def test_a_queue_of_a_client_reads_few_bytes_ahead(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os") as store:
        held_queue = HeldQueue(store.queue("items", codec="bytes"))
        for size in (100_000, *[10_000] * 40):
            held_queue.put(bytes(size), None)

        items = [held_queue.get() for _ in range(2)]

        assert [item and len(item[0]) for item in items] == [100_000, 10_000]
        assert 0 < sum(len(message.body) for message in held_queue.queue._ahead) <= AHEAD_SIZE_MAX


def test_a_reply_over_https_that_is_not_taken_counts(tmp_path: Path) -> None:
    tls, client_tls = tls_contexts(tmp_path)
    with running_http(tmp_path / "data", tls=tls, trusted=client_tls) as served, socket.socket() as plain:
        served.broker.store.topic("large").put(bytes(HTTP_BODY_SIZE_MAX))
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect((HOST, served.port))
        with client_tls.wrap_socket(plain, server_hostname=HOST) as client:
            client.sendall(f"GET /v1/topics/large/messages?encoding=base64 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())

            until(lambda: served.broker.budget.sizes[MemoryKind.ANSWERS] > HTTP_BODY_SIZE_MAX)
            time.sleep(0.5)

            assert served.broker.budget.sizes[MemoryKind.ANSWERS] > HTTP_BODY_SIZE_MAX


def test_a_closed_connection_frees_its_buffers_immediately(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running:
        gc.collect()
        gc.disable()
        try:
            with Caller(running) as caller:
                caller.produce("orders", batch(bytes(100_000)))
                (connection,) = map(weakref.ref, running.broker.connections)
            with beginning(running.broker.advertised, 10 * MIB, MIB):
                until(lambda: running.broker.budget.size == 10 * MIB)
                unfinished = [weakref.ref(each) for each in running.broker.connections]

            until(lambda: connection() is None and [each() for each in unfinished] == [None] * len(unfinished))
        finally:
            gc.enable()
