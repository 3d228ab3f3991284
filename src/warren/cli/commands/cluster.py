"""`warren cluster`: makes a cluster, shows it, and changes who leads and who belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from warren.broker.cluster.overview import (
    ShardOverview,
    add_replica,
    elect_uncleanly,
    found_cluster,
    overview,
    remove_replica,
)
from warren.broker.cluster.shard_registry import LivingReplica, ShardSettings, min_insync_default
from warren.cli.commands.cluster_start import start
from warren.cli.options.cluster_options import Addresses, BrokerAccess, RegistryAccess, at_brokers, at_registry
from warren.cli.options.store_option import AsJson
from warren.cli.output.tables import table, write_json
from warren.cli.output.verification_tables import ShardVerification
from warren.cli.running.errors import EXIT_FAILED, FailureGroup, fail
from warren.cli.running.shard_verification import verify_shard
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput, ConnectionLost, NotMaster, WarrenError
from warren.protocol.native_messages import HandOverShardRequest, SeeClusterRequest, SeeClusterResponseShard
from warren.registry.addresses import parse_addresses
from warren.registry.registry import Registry
from warren.registry.status import ask_statuses

WATCH_S: Final = 1.0
HAND_OVER_S: Final = 15.0
LOOK_S: Final = 0.1
ANY_REPLICA: Final = -1
ROLES: Final = {"master": "green", "in sync": "green", "behind": "yellow", "observer": "cyan", "gone": "red"}

app = typer.Typer(
    cls=FailureGroup, help="Run a store on several machines: one leads, the others follow.", no_args_is_help=True
)
app.command("start")(start)

Shard = Annotated[int, typer.Option(min=0, help="The shard.")]


@app.command()
@at_registry
def init(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    shards: Annotated[int, typer.Option(min=1, help="How many shards.")] = 1,
    replicas: Annotated[int, typer.Option(min=1, max=16, help="How many replicas each of them has.")] = 3,
    min_insync: Annotated[
        int | None,
        typer.Option(min=1, help="How many replicas must have a put at least. 2 of 3; with two replicas 1."),
    ] = None,
) -> None:
    """Make a cluster in ZooKeeper. Then start its brokers. Safe to repeat."""
    least = min_insync_default(replicas) if min_insync is None else min_insync
    settings = ShardSettings(replicas=tuple(range(replicas)), min_insync=least).check()
    with zookeeper.open(addresses) as registry:
        found_cluster(registry, zookeeper.root, shards, settings)
    where = f"{addresses}{zookeeper.root}"
    typer.echo(f"cluster at {where}: {shards} shard(s) of {replicas} replicas, {least} have every put")
    typer.echo(
        f"start each replica: warren serve DATA --cluster {addresses} --shard 0 --replica 0 --advertise HOST:9092"
    )


@app.command()
@at_registry
@at_brokers
def status(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    brokers: BrokerAccess,
    is_watching: Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")] = False,
    is_json: AsJson = False,
) -> None:
    """Show shards, epochs, masters, in-sync sets, and how far slaves are behind. Fails if something is wrong."""
    with zookeeper.open(addresses) as registry:
        shards_now = overview(registry, zookeeper.root)
        if is_json:
            write_json([each.to_json() for each in shards_now])
        elif is_watching:
            with Live(_tables(shards_now, brokers), console=Console(highlight=False), auto_refresh=False) as live:
                while True:
                    SYSTEM_CLOCK.sleep(WATCH_S)
                    live.update(_tables(overview(registry, zookeeper.root), brokers), refresh=True)
        else:
            Console(highlight=False).print(_tables(shards_now, brokers))
    if any(each.fault for each in shards_now):
        raise typer.Exit(EXIT_FAILED)


def _tables(shards_now: Sequence[ShardOverview], brokers: BrokerAccess) -> Group:
    return Group(*(status_table(each, *_seen_by_master(each, brokers)) for each in shards_now))


def status_table(shard: ShardOverview, lag_of: SeeClusterResponseShard | None, fault: str = "") -> Table:
    """Returns a shard with one replica in each row. `fault` says why the master does not say how far they are."""
    epoch = "–" if shard.view is None else str(shard.view.state.epoch)
    rows = table(f"shard {shard.shard}, epoch {epoch}, at least {shard.settings.min_insync} have every put")
    for name in ("replica", "role", "address"):
        rows.add_column(name, no_wrap=True)
    for name in ("behind", "silent"):
        rows.add_column(name, justify="right")
    lags = {} if lag_of is None else {each.replica: each for each in lag_of.replicas}
    for replica in (*shard.settings.replicas, *shard.settings.observers):
        role, living, lag = shard.role(replica), shard.living.get(replica), lags.get(replica)
        behind = silent = "–"
        if lag_of is not None and lag is not None and lag.acknowledged >= 0:
            behind = f"{max(0, lag_of.barrier - lag.acknowledged):,}"
            silent = "–" if lag.silent_ms < 0 else f"{lag.silent_ms / 1000:.1f} s"
        address = "–" if living is None else living.address
        rows.add_row(str(replica), Text(role, style=ROLES[role]), address, behind, silent)
    if shard.fault or fault:
        rows.caption = Text("\n".join(filter(None, (shard.fault, fault))), style="red")
    return rows


def _seen_by_master(shard: ShardOverview, brokers: BrokerAccess) -> tuple[SeeClusterResponseShard | None, str]:
    """Asks the master how far its slaves are. Returns None, and why, if it does not say."""
    if shard.master is None:
        return None, ""
    try:
        shards = brokers.ask(shard.master.address, SeeClusterRequest()).shards
    except WarrenError as error:
        return None, str(error)
    return next((each for each in shards if each.shard == shard.shard), None), ""


@app.command()
@at_registry
@at_brokers
def verify(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    brokers: BrokerAccess,
    shard: Annotated[int | None, typer.Option(min=0, help="Only this shard; all of them if it is left out.")] = None,
    is_json: AsJson = False,
) -> None:
    """Compare the replicas of each shard while they run: topics, records, groups, delays, transactions.

    Fails and names the first difference if they are not equal, or if a replica does not answer.
    """
    with zookeeper.open(addresses) as registry:
        shards_now = overview(registry, zookeeper.root)
        if shard is not None:
            shards_now = [_shard(registry, zookeeper.root, shard)]
    compared = [ShardVerification(each, verify_shard(each, brokers.connect, is_quiet=is_json)) for each in shards_now]
    if is_json:
        write_json([each.to_json() for each in compared])
    for each in compared:
        if not is_json and each.results:
            Console(highlight=False).print(each.table())
    for each in compared:
        if each.fault:
            fail(f"shard {each.shard.shard}: {each.fault}")


@app.command("hand-over")
@at_registry
@at_brokers
def hand_over(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    brokers: BrokerAccess,
    shard: Shard = 0,
    to: Annotated[int, typer.Option("--to", help="The replica that takes over; any if it is left out.")] = ANY_REPLICA,
) -> None:
    """Let the master give its office to another member of the in-sync set, without losing or refusing anything."""
    with zookeeper.open(addresses) as registry:
        before = _shard(registry, zookeeper.root, shard)
        if before.master is None or before.view is None:
            raise NotMaster(shard, 0, "")
        named = brokers.ask(before.master.address, HandOverShardRequest(shard=shard, replica=to)).replica
        begun_s = SYSTEM_CLOCK.steady_s()
        while SYSTEM_CLOCK.steady_s() < begun_s + HAND_OVER_S:
            now = _shard(registry, zookeeper.root, shard)
            if now.view is not None and now.view.state.epoch > before.view.state.epoch and now.master is not None:
                took_s = SYSTEM_CLOCK.steady_s() - begun_s
                typer.echo(
                    f"replica {now.master.replica} leads shard {shard} since epoch {now.view.state.epoch}, "
                    f"after {took_s:.1f} s"
                )
                return
            SYSTEM_CLOCK.sleep(LOOK_S)
    raise BadInput(f"replica {named} has not taken over within {HAND_OVER_S:.0f} s; look at warren cluster status")


def _shard(registry: Registry, root: str, shard: int) -> ShardOverview:
    for each in overview(registry, root):
        if each.shard == shard:
            return each
    raise BadInput(f"the cluster has no shard {shard}")


@app.command("add-replica")
@at_registry
def add(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    replica: Annotated[int, typer.Argument(min=0, max=15, help="Its number.")],
    shard: Shard = 0,
    is_observer: Annotated[bool, typer.Option("--observer", help="It follows, and no put waits for it.")] = False,
) -> None:
    """Let a shard have one replica more. Start it with an empty directory: it fetches the store."""
    with zookeeper.open(addresses) as registry:
        settings = add_replica(registry, zookeeper.root, shard, replica, is_observer=is_observer)
    mode = " --mode async" if is_observer else ""
    typer.echo(f"shard {shard} has the replicas {list(settings.replicas)} and the observers {list(settings.observers)}")
    typer.echo(f"start it: warren serve DATA --cluster {addresses} --shard {shard} --replica {replica}{mode}")


@app.command("remove-replica")
@at_registry
def remove(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    replica: Annotated[int, typer.Argument(min=0, max=15, help="Its number.")],
    shard: Shard = 0,
    min_insync: Annotated[int | None, typer.Option(min=1, help="How many must have a put from now on.")] = None,
) -> None:
    """Remove a replica from a shard. Stop its broker first. Its directory stays as it is."""
    with zookeeper.open(addresses) as registry:
        settings = remove_replica(registry, zookeeper.root, shard, replica, min_insync)
    typer.echo(f"shard {shard} has the replicas {list(settings.replicas)}, {settings.min_insync} have every put")


@app.command()
@at_registry
def elect(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    replica: Annotated[int | None, typer.Argument(min=0, max=15, help="The replica that shall lead.")] = None,
    shard: Shard = 0,
    is_unclean: Annotated[
        bool, typer.Option("--unclean", help="Accept that what the replica does not have is lost.")
    ] = False,
    is_yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Choose a master when no member of the in-sync set comes back. What the chosen replica lacks is lost."""
    with zookeeper.open(addresses) as registry:
        there = _shard(registry, zookeeper.root, shard)
        Console(highlight=False).print(status_table(there, None))
        for each in there.living.values():
            typer.echo(f"replica {each.replica} has seen epoch {each.epoch}")
        if replica is None or not is_unclean:
            raise BadInput(
                "name the replica that shall lead, and pass --unclean: what it does not have is lost, although it was "
                "acknowledged"
            )
        if not is_yes:
            typer.confirm(f"Let replica {replica} lead shard {shard}, and give up what it does not have?", abort=True)
        state = elect_uncleanly(registry, zookeeper.root, shard, replica)
    typer.echo(f"replica {replica} leads shard {shard} from epoch {state.epoch + 1} on")


@app.command()
@at_registry
@at_brokers
def doctor(
    addresses: Addresses,
    zookeeper: RegistryAccess,
    brokers: BrokerAccess,
    is_json: AsJson = False,
) -> None:
    """Check ZooKeeper, the registry and every broker of a cluster, and say what to do."""
    tls = None if zookeeper.tls is None else zookeeper.tls.context()
    servers = ask_statuses(parse_addresses(addresses), tls)
    findings = [(f"ZooKeeper {each.address}", each.is_serving, each.reason or each.mode) for each in servers]
    with zookeeper.open(addresses) as registry:
        for shard in overview(registry, zookeeper.root):
            findings.append((f"shard {shard.shard}", not shard.fault, shard.fault or "every replica is in sync"))
            findings += [_checked_broker(brokers, each) for each in shard.living.values()]
    if is_json:
        write_json([{"what": what, "is_well": is_well, "says": says} for what, is_well, says in findings])
    else:
        for what, is_well, says in findings:
            typer.echo(f"{'ok    ' if is_well else 'FAILED'} {what}: {says}")
    if not all(is_well for _, is_well, _ in findings):
        raise typer.Exit(EXIT_FAILED)


def _checked_broker(brokers: BrokerAccess, replica: LivingReplica) -> tuple[str, bool, str]:
    what = f"replica {replica.replica} at {replica.address}"
    try:
        brokers.ask(replica.address, SeeClusterRequest())
    except WarrenError as error:
        advice = "; is it reached at the address that it advertises?" if type(error) is ConnectionLost else ""
        return what, False, f"{error}{advice}"
    return what, True, "answers"
