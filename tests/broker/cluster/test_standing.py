"""A master reports on its shard in the statistics, in the metrics and by `/readyz`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import Metric

from tests.broker.cluster.replicas import Process, Shard, until, with_shard
from tests.support.broker.standings import SLAVE_STATUS, STANDING, exposition
from warren.broker.services.leadership import Alone, ShardStanding
from warren.broker.services.status import cluster_document
from warren.gateway.handlers.health import readiness
from warren.gateway.handlers.metrics import cluster_families, slave_families
from warren.gateway.http.types import HttpRequest

LOG = "topics/orders/0@1"


def samples(families: Iterable[Metric]) -> list[str]:
    return [line for line in exposition(families).splitlines() if not line.startswith("#")]


def standing_of(master: Process) -> ShardStanding:
    standing = master.leadership.standing
    assert standing is not None
    return standing


def test_a_master_reports_how_far_its_slaves_are_behind(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        await until(lambda: len(master.leadership.insync) == 3)
        for number in range(10):
            await shard.put(LOG, number.to_bytes(4, "big"))
        slaves = [each for each in shard.processes.values() if each is not master]
        await until(lambda: {each.behind for each in standing_of(master).slaves} == {0})

        standing = standing_of(master)
        slaves[0].kill()
        await until(lambda: standing_of(master).insync == 2)

        assert (standing.replica, standing.epoch, standing.insync, standing.min_insync) == (master.replica, 1, 3, 2)
        assert [each.replica for each in standing.slaves] == sorted(each.replica for each in slaves)
        assert all(each.is_insync and each.silent_ms >= 0 for each in standing.slaves)
        dead = next(each for each in standing_of(master).slaves if each.replica == slaves[0].replica)
        assert (dead.is_insync, dead.behind) == (False, -1)
        assert slaves[1].leadership.standing is None

    asyncio.run(with_shard(tmp_path, scenario))


def test_a_master_without_enough_replicas_is_not_ready(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        for each in list(shard.processes.values()):
            if each is not master:
                each.kill()
        master.disk.put(LOG, b"0000")
        await until(lambda: master.leadership.refusal_of_puts() is not None)
        broker = SimpleNamespace(is_stopping=False, failed_logs=(), leadership=master.leadership)

        reason = await readiness(cast(HttpRequest, SimpleNamespace(broker=broker)))

        assert reason == str(master.leadership.refusal_of_puts())

    asyncio.run(with_shard(tmp_path, scenario))


def test_the_metrics_have_role_epoch_set_and_lag() -> None:
    assert samples(cluster_families(STANDING)) == [
        'warren_cluster_role{replica="1",role="master",shard="0"} 1.0',
        "warren_cluster_epoch 4.0",
        "warren_cluster_insync_replicas 2.0",
        "warren_cluster_min_insync 2.0",
        'warren_cluster_slave_insync{replica="0"} 1.0',
        'warren_cluster_slave_insync{replica="2"} 0.0',
        'warren_cluster_slave_behind{replica="0"} 17.0',
        'warren_cluster_slave_silent_seconds{replica="0"} 1.5',
    ]
    assert samples(cluster_families(None)) == []


def test_the_metrics_of_an_observer_have_its_role_and_its_logs() -> None:
    assert samples(slave_families(SLAVE_STATUS)) == [
        'warren_cluster_role{replica="2",role="observer",shard="0"} 1.0',
        "warren_cluster_epoch 4.0",
        "warren_cluster_insync_replicas 2.0",
        "warren_cluster_min_insync 2.0",
        'warren_cluster_slave_insync{replica="2"} 0.0',
        "warren_cluster_following 1.0",
        'warren_cluster_log_end_number{log="topics/orders/0"} 7.0',
        'warren_cluster_log_end_number{log="topics/orders/1"} 0.0',
        'warren_cluster_log_behind{log="topics/orders/0"} 3.0',
    ]


def test_the_statistics_have_role_epoch_set_and_lag() -> None:
    alone = Alone(lambda: ("localhost", 9092))

    document = cluster_document(cast(Any, SimpleNamespace(standing=STANDING)))

    assert document is not None
    assert (document["role"], document["epoch"], document["insync"]) == ("master", 4, 2)
    assert document["slaves"][0] == {
        "replica": 0,
        "is_insync": True,
        "is_observer": False,
        "behind": 17,
        "silent_ms": 1500,
    }
    assert cluster_document(alone) is None
