"""The answer of a slave to a Fetch, and the slave to which a master refers a consumer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pyarrow
import pytest

from tests.support.message_values import Fields, decode_response, encode_request
from tests.support.replication.replica_pair import ReplicaPair
from warren.broker.cluster.replica_host import ReplicaHost
from warren.broker.cluster.shard_leadership import ShardLeadership
from warren.broker.kafka.call import Call
from warren.broker.kafka.errors import Code
from warren.broker.net.request import DeferredReply, ServedCall
from warren.broker.net.tasks import BackgroundTasks
from warren.broker.security.peer import Peer
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.clock import SYSTEM_CLOCK
from warren.errors import NoRight, NotMaster
from warren.protocol.api_keys import ApiKey
from warren.protocol.headers import Request
from warren.protocol.native.calls import VERSION, checked
from warren.protocol.native_messages import (
    AppendRequest,
    FindReplicasRequest,
    FindTimeRequest,
    ListTopicsRequest,
    OpenSessionRequest,
    OpenTopicRequest,
    ReadRequest,
    ReadResponse,
    ScanRequest,
    WireError,
    WirePosition,
)
from warren.protocol.schema_codec import message_buffers, read_response
from warren.protocol.wire_struct import NativeResponse, WireRequest
from warren.replication.changes import RemovedLog
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM

LOG = "topics/orders/0"
LONG_MS = 60_000
BY_ID = 13
SLAVE = 2


R = TypeVar("R", bound=NativeResponse)


def node_at(replica: int, *, insync: Sequence[int] = (1, SLAVE), racks: Sequence[str] = (), leads: bool = False) -> Any:
    """A node that is linked to its master, as its leadership and its readers see it."""
    members = [SimpleNamespace(replica=each) for each in insync]
    return SimpleNamespace(
        is_linked=True,
        is_serving=leads,
        setup=SimpleNamespace(shard=0, replica=replica, tls=None, user=None),
        master=SimpleNamespace(insync=SimpleNamespace(members=members), epoch=1) if leads else None,
        view=SimpleNamespace(state=SimpleNamespace(insync=members, epoch=1)),
        watch=SimpleNamespace(not_master=lambda: NotMaster(0, 1, "h:1")),
        living={
            each: SimpleNamespace(replica=each, host="h", port=1, rack=rack) for each, rack in enumerate(racks, start=1)
        },
    )


class Slave:
    """A master's store with ten messages, and a slave of which consumers read."""

    def __init__(self, path: Path, tasks: asyncio.TaskGroup) -> None:
        self.pair = ReplicaPair(str(path / "a"), str(path / "b"))
        self.store = self.pair.open()
        self.topic = self.store.topic("orders")
        self.topic.put_many([b"<%d>" % number for number in range(10)])
        self.node = node_at(SLAVE)
        self.host = ReplicaHost(
            str(path / "b"), SYSTEM_FILE_SYSTEM, SYSTEM_CLOCK, self.node, BrokerSettings(), BrokerLimits(), tasks
        )
        self.reads = self.host.reads

    @property
    def log(self) -> str:
        (name,) = [name for name in self.pair.slave.tails() if name.startswith(LOG)]
        return name

    def show(self, end: int) -> None:
        self.pair.slave.show({self.log: end})
        self.reads.wake_readers({self.log: end})

    async def fetch(self, number: int, *, wait_ms: int = 0, version: int = 12, topic_id: bytes = b"") -> Fields:
        """Returns the answer for the partition."""
        answer = await self.answered(number, wait_ms, version, topic_id)
        assert answer is not None
        (topic,) = answer.responses
        (part,) = topic.partitions
        return part

    async def answered(self, number: int, wait_ms: int, version: int, topic_id: bytes) -> Fields | None:
        partition = {"partition": 0, "current_leader_epoch": 1, "fetch_offset": number, "partition_max_bytes": 1 << 20}
        topic: dict[str, Any] = {"topic_id": topic_id} if version >= BY_ID else {"topic": "orders"}
        values = {
            "replica_id": -1,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "topics": [{**topic, "partitions": [partition]}],
        }
        body = memoryview(encode_request(ApiKey.FETCH, version, values))
        request = Request(ApiKey.FETCH, version, 1, "test", body)
        reply: Any = self.reads.fetch(cast(Call, ServedCall(cast(Any, self.host), Peer("h", 1), request)))
        if reply is None:
            return None
        if isinstance(reply, DeferredReply):
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            reply.on_done = done.set_result
            reply = await done
        return decode_response(ApiKey.FETCH, version, b"".join(map(bytes, reply)))

    async def ask(self, request: WireRequest[R]) -> R:
        """Returns the answer to one of our own calls, as the process of the slave gives it."""
        encoded = Request(request.api_key, VERSION, 1, "test", memoryview(b"".join(message_buffers(request, VERSION))))
        reply: Any = self.host.answer(Peer("h", 1), encoded)
        buffers = await reply if inspect.isawaitable(reply) else reply
        return read_response(request.response, VERSION, memoryview(b"".join(map(bytes, buffers))))

    def read(self, number: int, **options: Any) -> Awaitable[ReadResponse]:
        return self.ask(ReadRequest("orders", [WirePosition(0, number)], limit=100, **options))


def run(path: Path, scenario: Callable[[Slave], Awaitable[None]]) -> None:
    async def main() -> None:
        failure: BaseException | None = None
        try:
            async with BackgroundTasks() as tasks:
                slave = Slave(path, tasks)
                try:
                    async with asyncio.timeout(30):
                        await scenario(slave)
                except Exception as error:  # noqa: BLE001  # It is raised below, without the group around it.
                    failure = error
                slave.host.close()
                slave.store.close()
                raise _Over
        except* _Over:
            pass
        if failure is not None:
            raise failure

    asyncio.run(main())


class _Over(Exception):
    pass


def test_a_slave_serves_committed_messages_and_refuses_numbers_past_them(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.show(6)

        first, empty = await slave.fetch(0), await slave.fetch(6)
        coming, last, behind = [await slave.fetch(number) for number in (8, 10, 11)]

        assert (first.error_code, first.high_watermark, first.last_stable_offset, first.log_start_offset) == (
            0,
            6,
            6,
            0,
        )
        assert [b"<%d>" % number in bytes(first.records) for number in range(10)] == [True] * 6 + [False] * 4
        assert (empty.error_code, empty.high_watermark, not empty.records) == (0, 6, True)
        assert coming.error_code == last.error_code == Code.OFFSET_NOT_AVAILABLE
        assert behind.error_code == Code.OFFSET_OUT_OF_RANGE

    run(tmp_path, scenario)


@pytest.mark.parametrize("number", [6, 8])
def test_a_fetch_waits_until_more_is_committed(tmp_path: Path, number: int) -> None:
    async def scenario(slave: Slave) -> None:
        slave.show(6)
        waiting = asyncio.create_task(slave.fetch(number, wait_ms=LONG_MS))
        while not slave.reads.long_polls.parked_count:
            await asyncio.sleep(0.01)

        slave.show(10)
        fetched = await waiting

        assert (fetched.error_code, fetched.high_watermark) == (0, 10)
        assert b"<%d>" % 9 in bytes(fetched.records)

    run(tmp_path, scenario)


def test_a_slave_without_a_link_or_outside_the_set_refers_consumers_to_the_master(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        assert await slave.answered(0, 0, 12, b"") is not None
        slave.node.is_linked = False
        assert await slave.answered(0, 0, 12, b"") is None
        slave.node.is_linked = True
        slave.node.view.state.insync.pop()
        assert await slave.answered(0, 0, 12, b"") is None

    run(tmp_path, scenario)


def test_a_slave_checks_the_right_to_read(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.reads.rights = cast(Any, SimpleNamespace(may=lambda *arguments: False))

        assert (await slave.fetch(0)).error_code == Code.TOPIC_AUTHORIZATION_FAILED

    run(tmp_path, scenario)


def refusal_of(answer: Any) -> str:
    """Returns the code of the error in an answer."""
    assert isinstance(answer.error, WireError)
    return answer.error.code


def numbers(answer: ReadResponse) -> list[int]:
    return list(checked(answer).messages.numbers)


def test_a_slave_serves_committed_messages_to_our_own_clients(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.show(6)

        begun = checked(await slave.ask(FindReplicasRequest("b")))
        read, rest, end = [await slave.read(number) for number in (0, 4, 6)]
        scanned = checked(await slave.ask(ScanRequest("orders", 0, 0, 10)))

        assert (begun.store_id, list(begun.addresses)) == (slave.store.id, [])
        assert [numbers(each) for each in (read, rest, end)] == [list(range(6)), [4, 5], []]
        assert [list(each.positions) for each in (read, end)] == [[WirePosition(0, 6)]] * 2
        assert (read.is_more, end.is_more) == (False, False)
        assert scanned.next == 6
        assert pyarrow.ipc.open_stream(scanned.arrow).read_all().num_rows == 6

    run(tmp_path, scenario)


def test_a_slave_returns_nothing_backwards_from_a_number_past_the_committed_end(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.show(6)

        below = await slave.read(5, is_backwards=True)
        at_end, past = [await slave.read(number, is_backwards=True) for number in (6, 9)]

        assert numbers(below) == [5, 4, 3, 2, 1, 0]
        assert [(numbers(each), each.positions[0].number) for each in (at_end, past)] == [([], 6), ([], 9)]

    run(tmp_path, scenario)


def test_a_read_of_our_own_client_waits_until_more_is_committed(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.show(6)
        waiting = asyncio.ensure_future(slave.read(6, wait_ms=LONG_MS))
        while not slave.reads.long_polls.parked_count:
            await asyncio.sleep(0.01)

        slave.show(10)

        assert numbers(await waiting) == [6, 7, 8, 9]

    run(tmp_path, scenario)


def test_a_slave_that_is_cut_off_during_a_wait_answers_with_an_error_and_not_an_empty_read(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.show(6)
        waiting = asyncio.ensure_future(slave.read(6, wait_ms=LONG_MS))
        while not slave.reads.long_polls.parked_count:
            await asyncio.sleep(0.01)

        slave.node.is_linked = False
        slave.reads.long_polls.stop()

        assert refusal_of(await waiting) == NotMaster.code

    run(tmp_path, scenario)


def test_a_slave_refers_all_other_calls_of_our_own_clients_to_the_master(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        requests: list[WireRequest[Any]] = [OpenSessionRequest(), OpenTopicRequest("orders"), FindTimeRequest("orders")]
        requests += [AppendRequest("orders"), ListTopicsRequest()]
        refused = [refusal_of(await slave.ask(each)) for each in requests]

        slave.node.view.state.insync.pop()
        refused += [refusal_of(await slave.ask(FindReplicasRequest("b"))), refusal_of(await slave.read(0))]

        assert refused == [NotMaster.code] * 7

    run(tmp_path, scenario)


def test_a_slave_checks_the_right_to_read_of_our_own_clients(tmp_path: Path) -> None:
    async def scenario(slave: Slave) -> None:
        slave.reads.rights = cast(Any, SimpleNamespace(may=lambda *arguments: False))

        refused = [refusal_of(await slave.read(0)), refusal_of(await slave.ask(ScanRequest("orders", 0, 0, 10)))]

        assert refused == [NoRight.code] * 2

    run(tmp_path, scenario)


def test_a_topic_that_is_deleted_and_created_again_has_another_id(tmp_path: Path) -> None:
    def topic_id(slave: Slave) -> bytes:
        return slave.reads.topics.id_of(slave.reads.topics.find("orders"))

    async def scenario(slave: Slave) -> None:
        slave.show(10)
        before = topic_id(slave)
        assert (await slave.fetch(0, version=BY_ID, topic_id=before)).high_watermark == 10
        waiting = asyncio.create_task(slave.fetch(10, wait_ms=LONG_MS))
        while not slave.reads.long_polls.parked_count:
            await asyncio.sleep(0.01)

        slave.reads.prepare_for([RemovedLog(slave.log)])
        slave.store.delete_topic("orders")
        refused = await waiting
        slave.store.topic("orders").put(b"<new>")
        slave.show(1)

        assert refused.error_code not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE)
        after = topic_id(slave)
        assert after != before
        assert b"<new>" in bytes((await slave.fetch(0, version=BY_ID, topic_id=after)).records)
        assert (await slave.fetch(0, version=BY_ID, topic_id=before)).error_code == Code.UNKNOWN_TOPIC_ID

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("rack", "insync", "expected"),
    [
        ("b", (1, 2, 3), [2]),
        ("c", (1, 2, 3, 4), [3, 4]),
        ("c", (1, 2, 4), [4]),
        ("c", (1, 2), []),
        ("a", (1, 2, 3), []),
        ("elsewhere", (1, 2, 3), []),
    ],
)
def test_a_master_names_the_slaves_in_the_rack_of_the_client_that_are_in_sync(
    rack: str, insync: Sequence[int], expected: list[int]
) -> None:
    leadership = ShardLeadership(node_at(1, insync=insync, racks="abcc", leads=True))

    assert [node.id for node in leadership.near(rack)] == expected


def test_a_slave_names_no_replicas_to_a_client() -> None:
    assert not ShardLeadership(node_at(2, insync=(1, 2, 3), racks="abc")).near("c")
