"""The HTTP port of a replica: health and metrics while it follows, and all of the gateway as soon as it leads."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import ssl
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import warren
from tests.broker.cluster.processes import PATIENCE_S, process_cluster
from tests.broker.cluster.replicas import CLUSTER, Process, Shard, until, with_shard
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.patience import until as until_within
from warren.broker.broker import Broker
from warren.broker.cluster import slave_status
from warren.broker.security.replica_user import ReplicaUser
from warren.broker.security.scram import HASHES
from warren.broker.security.tls import tls_context
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.gateway.server import SidePort

LOG = "topics/orders/0@1"


class Replied(NamedTuple):
    """A reply, with its body as a document if it is JSON."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


class Port:
    """The HTTP port of one replica."""

    def __init__(self, tls: ssl.SSLContext | None = None, trusted: ssl.SSLContext | None = None) -> None:
        self.number = 0
        self.side = SidePort(HOST, 0, tls, is_local=True, on_listening=self._listens)
        self._trusted = trusted

    def _listens(self, host: str, port: int) -> None:
        self.number = port

    def connection(self) -> http.client.HTTPConnection:
        if self._trusted is not None:
            return http.client.HTTPSConnection("localhost", self.number, timeout=PATIENCE_S, context=self._trusted)
        return http.client.HTTPConnection(HOST, self.number, timeout=PATIENCE_S)

    async def ask(self, path: str, method: str = "GET") -> Replied:
        with closing(self.connection()) as connection:
            return await asyncio.to_thread(exchanged, connection, path, method)

    async def readiness(self) -> tuple[int, str]:
        reply = await self.ask("/readyz")
        return reply.status, reply.document["reason"]

    async def metrics(self) -> dict[str, float]:
        reply = await self.ask("/metrics")
        assert reply.status == 200
        lines = [line.rpartition(" ") for line in reply.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}


def exchanged(connection: http.client.HTTPConnection, path: str, method: str = "GET") -> Replied:
    connection.request(method, path)
    response = connection.getresponse()
    return Replied(response.status, dict(response.getheaders()), response.read().decode())


def reply_of(port: int, path: str) -> Replied:
    with closing(http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)) as connection:
        return exchanged(connection, path)


@asynccontextmanager
async def followed(replica: Process, **options: Any) -> AsyncIterator[Port]:
    port = Port(**options)
    async with port.side.following(replica.host):
        yield port


async def slave_of(shard: Shard) -> tuple[Process, Process]:
    """Returns the master and a slave when all replicas are in the in-sync set."""
    master = await shard.master()
    await until(lambda: len(master.leadership.insync) == len(shard.settings.replicas))
    slave = next(each for each in shard.processes.values() if each is not master)
    await until(lambda: len(slave.leadership.insync) == len(shard.settings.replicas))
    return master, slave


def test_readyz_of_a_slave_returns_its_master_and_its_lag(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master, slave = await slave_of(shard)
        for number in range(3):
            await shard.put(LOG, number.to_bytes(4, "big"))
        await until(lambda: slave.disk.visible_ends.get(LOG) == 3)
        async with followed(slave) as port:
            ready, alive, metrics = await port.ask("/readyz"), await port.ask("/healthz"), await port.metrics()
            slave.disk.visible_ends[LOG] = 1
            behind, later = await port.ask("/readyz"), await port.metrics()

            address = f"127.0.0.1:{master.node.setup.port}"
            says = {"is_ready": True, "reason": "", "role": "slave", "epoch": 1, "master": address, "behind": 0}
            assert (ready.status, ready.document) == (200, says)
            assert (alive.status, alive.document) == (200, {"is_alive": True})
            place = f'{{replica="{slave.replica}",role="slave",shard="0"}}'
            assert metrics[f"warren_cluster_role{place}"] == 1
            assert [metrics[f"warren_cluster_{name}"] for name in ("epoch", "insync_replicas", "min_insync")] == [
                1,
                3,
                2,
            ]
            assert metrics["warren_cluster_following"] == 1
            assert metrics[f'warren_cluster_slave_insync{{replica="{slave.replica}"}}'] == 1
            assert metrics['warren_cluster_log_end_number{log="topics/orders/0"}'] == 3
            assert metrics['warren_cluster_log_behind{log="topics/orders/0"}'] == 0
            assert metrics['warren_http_requests_total{route="GET /readyz",status="200"}'] == 1
            assert metrics["warren_connections"] == len(slave.host.connections)
            assert metrics["process_cpu_seconds_total"] > 0
            assert behind.document["behind"] == 2
            assert later['warren_cluster_log_behind{log="topics/orders/0"}'] == 2

    asyncio.run(with_shard(tmp_path, scenario))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/v1/topics"), ("POST", "/v1/topics/orders/messages"), ("GET", "/v1/statistics")],
)
def test_other_requests_to_a_slave_are_refused_with_the_address_of_the_master(
    tmp_path: Path, method: str, path: str
) -> None:
    async def scenario(shard: Shard) -> None:
        master, slave = await slave_of(shard)
        async with followed(slave) as port:
            refused = await port.ask(path, method)
            unknown = await port.ask("/v1/nothing", method)
            described = await port.ask("/openapi.json")

            address = f"127.0.0.1:{master.node.setup.port}"
            assert (refused.status, refused.headers["Content-Type"]) == (503, "application/problem+json")
            assert refused.headers["Retry-After"] == "1"
            document = refused.document
            assert (document["code"], document["retryable"]) == ("not_master", True)
            assert (document["master"], document["epoch"]) == (address, 1)
            assert address in document["detail"]
            assert unknown.status == 404
            assert described.status == 200

    asyncio.run(with_shard(tmp_path, scenario))


@pytest.mark.parametrize("target", ["/", "/v1/topics/a%2Db/messages?limit=3&tag=x"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_other_requests_to_a_slave_are_sent_to_the_http_port_of_the_master(
    tmp_path: Path, method: str, target: str
) -> None:
    async def scenario(shard: Shard) -> None:
        master, slave = await slave_of(shard)
        async with followed(slave) as port:
            sent = await port.ask(target, method)

        if (method, target) == ("POST", "/"):
            assert sent.status == 405
            return
        assert (sent.status, sent.headers["Location"]) == (307, f"http://h{master.replica}:8080{target}")
        assert "Retry-After" not in sent.headers
        if method != "HEAD":
            assert (sent.document["code"], sent.document["status"]) == ("not_master", 307)

    asyncio.run(with_shard(tmp_path, scenario, urls={each: f"http://h{each}:8080" for each in range(3)}))


def test_an_observer_is_ready_when_it_has_caught_up(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        await shard.put(LOG, b"0000")
        may_read, ranges = threading.Event(), master.disk.ranges

        def waiting(*arguments: Any) -> Any:
            may_read.wait(PATIENCE_S)
            return ranges(*arguments)

        master.disk.ranges = waiting  # type: ignore[method-assign, assignment]
        await shard.start(1)
        observer = shard.processes[1]
        async with followed(observer) as port:
            await until(lambda: observer.node.slave is not None and observer.node.slave.state.name == "FETCHING")

            early, metrics = await port.ask("/readyz"), await port.metrics()
            may_read.set()
            await until(lambda: observer.disk.visible_ends.get(LOG) == 1)
            late = await port.ask("/readyz")

            assert early.status == 503
            address = f"127.0.0.1:{master.node.setup.port}"
            assert early.document["reason"] == f"this replica is still fetching what its master {address} has"
            assert (early.document["role"], early.document["behind"]) == ("observer", None)
            assert metrics["warren_cluster_following"] == 0
            assert (late.status, late.document["role"], late.document["behind"]) == (200, "observer", 0)

    asyncio.run(with_shard(tmp_path, scenario, replicas=(0,), min_insync=1, observers=(1,)))


def test_a_slave_outside_of_the_set_is_not_ready(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master, slave = await slave_of(shard)
        slave.kill()
        await until(lambda: len(master.leadership.insync) == 2)
        assert master.node.master is not None
        master.node.master.insync.welcome = lambda *_: None  # type: ignore[method-assign]
        await shard.start(slave.replica)
        again = shard.processes[slave.replica]
        async with followed(again) as port:
            await until(lambda: again.node.slave is not None and again.node.slave.has_caught_up)

            readiness, metrics = await port.readiness(), await port.metrics()

            assert readiness == (503, "this replica is not in the in-sync set yet")
            assert metrics[f'warren_cluster_slave_insync{{replica="{slave.replica}"}}'] == 0

    asyncio.run(with_shard(tmp_path, scenario))


def test_readyz_gives_the_reason_if_the_master_is_lost_or_missing(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        await shard.start(1)
        observer = shard.processes[1]
        async with followed(observer) as port:
            await until(lambda: observer.node.is_linked)
            address = f"127.0.0.1:{master.node.setup.port}"

            master.server.close()
            for each in list(master.host.connections):
                each.abort()
            await until(lambda: not observer.node.is_linked and observer.node.last_loss != "")
            lost = await port.readiness()
            master.kill()
            await until(lambda: observer.node.watch.other_master() is None)
            alone, refused = await port.ask("/readyz"), await port.ask("/v1/topics")
            observer.node.watch.refused_because = "the registry lost its data"
            outside = await port.readiness()

            assert lost[0] == 503
            assert lost[1].startswith(f"this replica has no connection to its master {address}: ")
            assert (alone.status, alone.document["reason"]) == (503, "shard 0 has no master now")
            assert alone.document["master"] is None
            assert (refused.status, "master" in refused.document) == (503, False)
            assert outside == (503, "the registry lost its data")

    asyncio.run(with_shard(tmp_path, scenario, replicas=(0,), min_insync=1, observers=(1,)))


def test_readyz_gives_the_reason_if_the_disk_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shard: Shard) -> None:
        _, slave = await slave_of(shard)
        async with followed(slave) as port:
            monkeypatch.setattr(slave_status, "DISK_WAIT_S", 0.01)
            may_go_on = threading.Event()
            slave.node.on_disk(may_go_on.wait, PATIENCE_S)

            readiness = await port.readiness()
            may_go_on.set()

            assert readiness == (503, "the disk of this replica has not answered for 0.01 seconds")

    asyncio.run(with_shard(tmp_path, scenario))


def test_a_replica_that_is_about_to_lead_is_not_ready(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        _, slave = await slave_of(shard)
        async with followed(slave) as port:
            slave.node.slave = None

            assert await port.readiness() == (503, "this replica is about to lead")

    asyncio.run(with_shard(tmp_path, scenario))


def test_the_http_port_of_a_slave_serves_the_gateway_when_it_becomes_master(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        _, slave = await slave_of(shard)
        async with followed(slave) as port:
            number, idle, busy = port.number, port.connection(), port.connection()
            await asyncio.to_thread(exchanged, idle, "/healthz")
            may_answer, has_come, aside = asyncio.Event(), asyncio.Event(), slave.host.aside

            async def waiting(*arguments: Any) -> Any:
                has_come.set()
                await may_answer.wait()
                return await aside(*arguments)

            slave.host.aside = waiting  # type: ignore[method-assign, assignment]
            request = asyncio.create_task(asyncio.to_thread(exchanged, busy, "/metrics"))
            await has_come.wait()
            with warren.open(tmp_path / "data") as store:
                broker = Broker(store, BrokerSettings(), BrokerLimits(), shard.tasks)
                async with port.side.serving(broker):
                    may_answer.set()
                    reply = await request
                    topics, metrics = await port.ask("/v1/topics"), await port.metrics()

                    # The request in progress is answered, and the next one over its connection would not be.
                    assert (reply.status, reply.headers["Connection"]) == (200, "close")
                    with pytest.raises((http.client.HTTPException, OSError)):
                        await asyncio.to_thread(exchanged, idle, "/healthz")
                    assert (topics.status, topics.document) == (200, {"topics": []})
                    assert port.number == number
                    assert metrics['warren_http_requests_total{route="GET /healthz",status="200"}'] == 1
                broker.close()
            idle.close()
            busy.close()

    asyncio.run(with_shard(tmp_path, scenario))


def test_metrics_of_a_slave_need_a_login_and_its_health_does_not(tmp_path: Path) -> None:
    users = {each: ReplicaUser("0123456789abcdef", CLUSTER, sorted(HASHES)) for each in range(3)}

    async def scenario(shard: Shard) -> None:
        _, slave = await slave_of(shard)
        async with followed(slave) as port:
            assert (await port.readiness())[0] == 200
            assert (await port.ask("/metrics")).status == 401

    asyncio.run(with_shard(tmp_path, scenario, users=users))


def test_a_slave_serves_http_over_tls(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority, trusted = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(trusted)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "broker.pem"))

    async def scenario(shard: Shard) -> None:
        _, slave = await slave_of(shard)
        async with followed(slave, tls=tls_context(str(tmp_path / "broker.pem")), trusted=trusted) as port:
            assert (await port.readiness())[0] == 200

    asyncio.run(with_shard(tmp_path, scenario))


def test_each_replica_of_a_cluster_serves_http_in_its_role(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper, is_http_served=True) as cluster:
        cluster.all_in_sync()
        first = cluster.master()
        ports = cluster.http_ports

        def role(replica: int) -> tuple[int, Any]:
            try:
                reply = reply_of(ports[replica], "/readyz")
            except (OSError, http.client.HTTPException):
                return 0, ""
            return reply.status, reply.document["role"]

        until_within(lambda: all(role(each) == (200, "slave") for each in ports if each != first))
        until_within(lambda: role(first) == (200, "master"))
        slave = next(each for each in ports if each != first)
        sent = reply_of(ports[slave], "/v1/topics?")
        assert (sent.status, sent.headers["Location"]) == (307, f"http://{HOST}:{ports[first]}/v1/topics")
        os.kill(cluster.replicas[first].child, signal.SIGKILL)
        second = cluster.master(2)

        until_within(lambda: role(second) == (200, "master"))
        until_within(lambda: role(first) == (200, "slave"))
        assert reply_of(ports[second], "/v1/topics").status == 200
