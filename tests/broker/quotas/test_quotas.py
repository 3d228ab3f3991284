"""Quotas: whose they are, how long requests over them wait in Kafka's way, and how fast changes apply."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.message_values import decode_response, encode_response
from tests.support.simulated_clock import SimulatedClock
from warren.broker.quotas.entities import (
    CONSUMED,
    CREATIONS,
    DEFAULT,
    PRODUCED,
    REQUESTS,
    TIME,
    TOPICS,
    Entity,
    checked_value,
)
from warren.broker.quotas.file import QuotasFile
from warren.broker.quotas.quotas import (
    OTHERS,
    QUOTA_BURST_S,
    QUOTA_CLIENTS_REMEMBERED_MAX,
    QUOTA_THROTTLE_S_MAX,
    QUOTA_USERS_SHOWN_MAX,
    Bucket,
    Quotas,
)
from warren.broker.quotas.windows import Timed
from warren.errors import BadInput, CorruptSettings
from warren.protocol.api_keys import APIS, Api, ApiKey
from warren.protocol.headers import Request
from warren.protocol.native_schemas import NativeKey
from warren.protocol.throttle import throttled
from warren.protocol.wire_struct import fields_of

RATE = 1000.0


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def file(tmp_path: Path) -> QuotasFile:
    warren.open(tmp_path / "data").close()
    return QuotasFile(str(tmp_path / "data"))


def quotas_of(file: QuotasFile, clock: SimulatedClock, **defaults: float) -> Quotas:
    return Quotas(file, defaults, clock.steady_s)


# --- Buckets ---


def test_the_unused_quota_is_available_immediately_and_more_has_to_wait(clock: SimulatedClock) -> None:
    bucket = Bucket(RATE, clock.steady_s())

    assert bucket.take(RATE * QUOTA_BURST_S, clock.steady_s()) == 0
    assert bucket.take(2 * RATE, clock.steady_s()) == 2
    clock.sleep(1.5)
    assert bucket.owed_s(clock.steady_s()) == 0.5
    clock.sleep(0.5)
    assert bucket.take(RATE / 2, clock.steady_s()) == 0.5
    clock.sleep(1000)
    assert bucket.take(RATE * QUOTA_BURST_S, clock.steady_s()) == 0


def test_a_wait_has_an_end(clock: SimulatedClock) -> None:
    assert Bucket(RATE, clock.steady_s()).take(1e9 * RATE, clock.steady_s()) == QUOTA_THROTTLE_S_MAX


# --- The quotas of each entity ---

PRECEDENCE = [
    Entity("ann", "app"),
    Entity("ann", DEFAULT),
    Entity("ann"),
    Entity(DEFAULT, "app"),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT),
    Entity(None, "app"),
    Entity(None, DEFAULT),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_nearest_entity_counts_as_in_kafka(file: QuotasFile, clock: SimulatedClock, first: int) -> None:
    file.alter((entity, {CONSUMED: 10.0 + number}) for number, entity in enumerate(PRECEDENCE) if number >= first)

    assert quotas_of(file, clock, consumer_byte_rate=5.0).answer_size_max("ann", "app", 1 << 20) == 10 + first


def test_the_configured_quota_applies_if_none_is_set(file: QuotasFile, clock: SimulatedClock) -> None:
    file.alter([(Entity("bob"), {CONSUMED: 7.0}), (Entity("ann"), {PRODUCED: 7.0})])

    assert quotas_of(file, clock, consumer_byte_rate=5.0).answer_size_max("ann", "app", 1 << 20) == 5


@pytest.mark.parametrize(
    ("entity", "is_shared"),
    [
        (Entity("ann"), {("ann", "other"): True, ("bob", "app"): False}),
        (Entity(DEFAULT), {("ann", "other"): True, ("bob", "app"): False}),
        (Entity(None, "app"), {("ann", "other"): False, ("bob", "app"): True}),
        (Entity(None, DEFAULT), {("ann", "other"): False, ("bob", "app"): True}),
        (Entity("ann", DEFAULT), {("ann", "other"): False, ("bob", "app"): False}),
        (Entity(DEFAULT, DEFAULT), {("ann", "other"): False, ("bob", "app"): False}),
    ],
)
def test_clients_of_one_entity_share_its_quota(
    file: QuotasFile, clock: SimulatedClock, entity: Entity, is_shared: dict[tuple[str, str], bool]
) -> None:
    file.alter([(entity, {REQUESTS: 1.0})])
    quotas = quotas_of(file, clock)
    quotas.use("ann", "app", {REQUESTS: 5.0})

    assert quotas.owed_s("ann", "app", [REQUESTS]) == 4
    assert {who: quotas.owed_s(*who, [REQUESTS]) > 0 for who in is_shared} == is_shared


def test_requests_count_by_their_kind(file: QuotasFile, clock: SimulatedClock) -> None:
    file.alter([(Entity("ann"), {PRODUCED: RATE, CONSUMED: RATE / 2, TIME: 10.0})])
    quotas = quotas_of(file, clock)
    size = round(3 * RATE)

    def charged(api_key: int, user: str = "ann", spent_s: float = 0.0) -> float:
        clock.sleep(100)
        return round(quotas.charge(user, "app", api_key, size, size, spent_s), 6)

    assert charged(ApiKey.PRODUCE) == charged(NativeKey.APPEND) == 2
    assert charged(ApiKey.FETCH) == charged(NativeKey.TAKE) == 5
    assert charged(ApiKey.METADATA) == charged(ApiKey.PRODUCE, "bob") == 0
    assert charged(ApiKey.METADATA, spent_s=0.3) == 2
    assert charged(ApiKey.SASL_AUTHENTICATE, spent_s=10.0) == 0
    assert quotas.throttled == {"ann": [5, 16.0, 0]}


def test_the_quota_state_of_users_is_limited(file: QuotasFile, clock: SimulatedClock) -> None:
    quotas = quotas_of(file, clock, request_rate=1.0)
    for number in range(QUOTA_CLIENTS_REMEMBERED_MAX + 10):
        quotas.use(f"user-{number}", "app", {REQUESTS: 2.0})

    assert len(quotas._buckets) <= QUOTA_CLIENTS_REMEMBERED_MAX
    assert len(quotas._clients) <= QUOTA_CLIENTS_REMEMBERED_MAX
    assert len(quotas.throttled) == QUOTA_USERS_SHOWN_MAX + 1
    assert quotas.throttled[OTHERS][0] == QUOTA_CLIENTS_REMEMBERED_MAX + 10 - QUOTA_USERS_SHOWN_MAX


def test_an_address_opens_connections_at_its_rate(file: QuotasFile, clock: SimulatedClock) -> None:
    file.alter([(Entity(address="10.0.0.1"), {CREATIONS: 2.0}), (Entity(address=DEFAULT), {CREATIONS: 0.5})])
    quotas = quotas_of(file, clock)

    def opened(host: str) -> int:
        return sum(quotas.admits(host) for _ in range(100))

    assert (opened("10.0.0.1"), opened("10.0.0.2"), opened("10.0.0.3")) == (3, 1, 1)
    clock.sleep(2)
    assert (opened("10.0.0.1"), opened("10.0.0.2")) == (3, 1)


# --- The file ---


def test_quotas_are_kept_changed_and_removed(file: QuotasFile) -> None:
    file.alter([(Entity("ann"), {PRODUCED: 1.0, TOPICS: 0.0}), (Entity(DEFAULT), {PRODUCED: 2.0})])
    file.alter([(Entity("ann"), {PRODUCED: None}), (Entity(DEFAULT), {PRODUCED: None}), (Entity("bob"), {TIME: None})])

    assert file.read() == {Entity("ann"): {TOPICS: 0.0}}


@pytest.mark.parametrize(
    ("parts", "key", "value"),
    [
        ({}, PRODUCED, 1.0),
        ({"user": "ann", "ip": "10.0.0.1"}, PRODUCED, 1.0),
        ({"group": "ann"}, PRODUCED, 1.0),
        ({"user": ""}, PRODUCED, 1.0),
        ({"ip": "host"}, CREATIONS, 1.0),
        ({"ip": "10.0.0.1"}, PRODUCED, 1.0),
        ({"user": "ann"}, CREATIONS, 1.0),
        ({"user": "ann", "client-id": "app"}, TOPICS, 1.0),
        ({"user": "ann"}, "bytes", 1.0),
        ({"user": "ann"}, PRODUCED, 0.0),
        ({"user": "ann"}, PRODUCED, -1.0),
        ({"user": "ann"}, PRODUCED, float("nan")),
        ({"user": "ann"}, PRODUCED, float("inf")),
        ({"user": "ann"}, PRODUCED, True),
        ({"user": "ann"}, PRODUCED, "1"),
    ],
)
def test_a_bad_quota_is_refused(parts: dict[str, str | None], key: str, value: Any) -> None:
    with pytest.raises(BadInput):
        checked_value(Entity.of(parts), key, value)


@pytest.mark.parametrize(
    "text",
    [
        '{"quotas": [1]}',
        '{"quotas": [{"user": "ann"}]}',
        '{"quotas": [{"user": "ann", "quotas": {"x": 1}}]}',
        "{",
        "[]",
    ],
)
def test_a_file_that_is_damaged_is_named_and_changes_nothing_of_a_broker(
    file: QuotasFile, clock: SimulatedClock, text: str
) -> None:
    file.alter([(Entity("ann"), {CONSUMED: 7.0})])
    quotas = quotas_of(file, clock)
    Path(file.path).write_text(text)
    quotas.refresh()

    with pytest.raises(CorruptSettings, match=r"quotas\.json"):
        file.read()
    assert quotas.answer_size_max("ann", "app", 100) == 7


def test_without_quotas_nothing_is_checked_and_a_new_one_is_noticed(file: QuotasFile, clock: SimulatedClock) -> None:
    quotas = quotas_of(file, clock)
    before = quotas.is_set
    file.alter([(Entity("ann"), {CONSUMED: 7.0})])
    quotas.refresh()

    assert (before, quotas.is_set) == (False, True)


# --- Time ---


def test_the_time_of_the_loop_is_counted_and_not_the_time_of_waiting(clock: SimulatedClock) -> None:
    spent: list[float] = []

    async def work(future: asyncio.Future[int]) -> int:
        clock.sleep(1)
        result = await future
        clock.sleep(2)
        return result

    async def main() -> int:
        future = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(_awaited(Timed(work(future), clock.steady_s, spent.append)))
        await asyncio.sleep(0)
        clock.sleep(50)
        future.set_result(7)
        return await task

    assert asyncio.run(main()) == 7
    assert sum(spent) == 3


async def _awaited(timed: Timed[int]) -> int:
    return await timed


def test_timed_work_is_cancelled_and_fails_as_it_would_untimed() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(True)

    async def main() -> None:
        task = asyncio.ensure_future(_awaited(Timed(work(), lambda: 0.0, lambda _: None)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    ended: list[bool] = []
    asyncio.run(main())
    assert ended == [True]


# --- Throttle times in answers ---

KAFKA_APIS = [
    (api, version)
    for api in APIS.values()
    if api.key < NativeKey.OPEN_SESSION and api.key not in (ApiKey.PRODUCE, ApiKey.FETCH)
    for version in range(api.first, api.last + 1)
]


@pytest.mark.parametrize(("api", "version"), KAFKA_APIS, ids=lambda each: each.name if isinstance(each, Api) else each)
def test_every_answer_with_a_throttle_time_has_it_set(api: Api, version: int) -> None:
    body = encode_response(api.key, version, {})
    request = Request(api.key, version, 1, None, memoryview(b""))
    answer = decode_response(api.key, version, b"".join(throttled(request, body, 1.5)))
    plain = fields_of(decode_response(api.key, version, b"".join(body)))

    if "throttle_time_ms" in plain:
        if api.key != ApiKey.API_VERSIONS:
            plain["throttle_time_ms"] = 1500 if _carries(api, version) else 0
        else:
            plain["throttle_time_ms"] = answer.throttle_time_ms
    assert fields_of(answer) == plain


def _carries(api: Api, version: int) -> bool:
    """Returns whether this version of the answer has the field at all."""
    without = encode_response(api.key, version, {"throttle_time_ms": 0})
    encoded = encode_response(api.key, version, {"throttle_time_ms": 77})
    return without != encoded
