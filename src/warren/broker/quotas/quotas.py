"""Quotas at work: what each client has used, and how long it has to wait if it has used more."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from warren.broker.quotas.entities import (
    CONSUMED,
    CREATIONS,
    DEFAULT,
    MUTATIONS,
    PRODUCED,
    RATES,
    REQUESTS,
    TIME,
    Entity,
)
from warren.broker.quotas.file import QuotasFile
from warren.broker.security.replica_user import REPLICA_USER
from warren.errors import WarrenError
from warren.protocol.api_keys import ApiKey
from warren.protocol.native_schemas import CARRYING, NativeKey

QUOTA_BURST_S: Final = 1.0
"""The unused quota of this many seconds may be used in one step."""
QUOTA_THROTTLE_S_MAX: Final = 10.0
"""The longest wait that an answer may request, and the longest time for which a connection is not read."""
QUOTA_CLIENTS_REMEMBERED_MAX: Final = 10_000
"""For how many users and client ids the usage is remembered."""
QUOTA_USERS_SHOWN_MAX: Final = 100
"""How many users have their own metrics; the others share one."""

LOGGER: Final = logging.getLogger("warren.broker")
OTHERS: Final = "others"
"""Stands in metrics for all users beyond QUOTA_USERS_SHOWN_MAX."""
PUTTING: Final = frozenset({ApiKey.PRODUCE, *CARRYING})
GIVING: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        NativeKey.READ,
        NativeKey.SCAN,
        NativeKey.READ_GROUP,
        NativeKey.TAKE,
        NativeKey.USE_QUEUE,
        NativeKey.LIST_PARKED,
        NativeKey.LIST_DEAD,
    }
)
"""The requests whose bytes count as produced, and the requests whose answers count as consumed."""
MUTATING: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.METADATA,
        ApiKey.PRODUCE,
        NativeKey.OPEN_TOPIC,
        NativeKey.CONFIGURE_TOPIC,
        NativeKey.DELETE_TOPIC,
        NativeKey.OPEN_QUEUE,
    }
)
"""The requests that may make or delete topics."""
EXEMPT: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
PERCENT: Final = 100.0
Scope = tuple[str, str | None, str | None]
"""The key of a quota, and the user and the client that share it; None for all."""


class Bucket:
    """Tokens that come back at `rate` per second, up to those of QUOTA_BURST_S. For the event loop's thread alone.

    A request may take more tokens than there are. Then the next one has to wait, at most QUOTA_THROTTLE_S_MAX.
    """

    __slots__ = ("_at_s", "_tokens", "rate")

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate, self._at_s = rate, now_s
        self._tokens = rate * QUOTA_BURST_S

    def take(self, amount: float, now_s: float) -> float:
        """Takes tokens. Returns how many seconds to wait before the next take."""
        self.owed_s(now_s)
        self._tokens = max(self._tokens - amount, -self.rate * QUOTA_THROTTLE_S_MAX)
        return max(0.0, -self._tokens / self.rate)

    def owed_s(self, now_s: float) -> float:
        """Returns for how many seconds no tokens should be taken."""
        tokens = self._tokens + (now_s - self._at_s) * self.rate
        self._tokens, self._at_s = min(tokens, self.rate * QUOTA_BURST_S), now_s
        return max(0.0, -self._tokens / self.rate)

    @property
    def is_full(self) -> bool:
        return self._tokens >= self.rate * QUOTA_BURST_S


class Quotas:
    """The quotas of a broker: those in the file, and `defaults` for each user that has none. For the loop's thread.

    `is_set` is False while there is no quota; callers then use no other method of this object. `refresh` reads the file
    again if it has changed. A file that cannot be read changes nothing.
    """

    def __init__(self, file: QuotasFile, defaults: Mapping[str, float], now: Callable[[], float]) -> None:
        self.file, self._defaults, self._now = file, defaults, now
        self.is_set = False
        self.throttled: dict[str, list[float]] = {}
        """For each user: how many answers were throttled, for how many seconds, and how many requests were refused."""
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._stamp: tuple[int, int] | None = None
        self._clients: dict[tuple[str, str], dict[str, Bucket]] = {}
        self._buckets: dict[Scope, Bucket] = {}
        self.refresh()

    def refresh(self) -> None:
        """Reads the quotas again if the file has changed."""
        try:
            status = os.stat(self.file.path)
            stamp = status.st_mtime_ns, status.st_ino
        except FileNotFoundError:
            stamp = 0, 0
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._quotas = self.file.read()
        except WarrenError as error:
            LOGGER.error("quotas stay as they were: %s", error)
        self._clients.clear()
        self.is_set = bool(self._quotas or self._defaults)

    # --- Rates ---

    def charge(self, user: str, client: str, api_key: int, size_in: int, size_out: int, spent_s: float) -> float:
        """Counts a request that was answered. Returns for how many seconds its client is to be throttled."""
        if api_key in EXEMPT:
            return 0.0
        used = {REQUESTS: 1.0, TIME: spent_s}
        if api_key in PUTTING:
            used[PRODUCED] = size_in
        if api_key in GIVING:
            used[CONSUMED] = size_out
        if api_key in MUTATING:
            # Partitions that were made or deleted were charged at that time.
            used[MUTATIONS] = 0.0
        return self.use(user, client, used)

    def use(self, user: str, client: str, used: Mapping[str, float]) -> float:
        """Takes these amounts from the quotas. Returns for how many seconds the client is to be throttled."""
        buckets, now_s = self._buckets_of(user, client), self._now()
        waits = [buckets[key].take(amount, now_s) for key, amount in used.items() if key in buckets]
        wait_s = max(waits, default=0.0)
        if wait_s:
            counts = self._counts(user)
            counts[0] += 1
            counts[1] += wait_s
        return wait_s

    def mutate(self, user: str, client: str, count: int) -> None:
        """Counts partitions that are created or deleted. `charge` throttles the client for it."""
        bucket = self._buckets_of(user, client).get(MUTATIONS)
        if bucket is not None:
            bucket.take(count, self._now())

    def owed_s(self, user: str, client: str, keys: Sequence[str]) -> float:
        """Returns for how many seconds a request that uses these quotas is to be refused, and counts a refusal."""
        buckets, now_s = self._buckets_of(user, client), self._now()
        wait_s = max((buckets[key].owed_s(now_s) for key in keys if key in buckets), default=0.0)
        if wait_s:
            self.refused(user)
        return wait_s

    def answer_size_max(self, user: str, client: str, size_max: int) -> int:
        """Returns how many bytes of messages one answer may hold: at most what QUOTA_BURST_S brings back."""
        bucket = self._buckets_of(user, client).get(CONSUMED)
        return size_max if bucket is None else max(1, min(size_max, int(bucket.rate * QUOTA_BURST_S)))

    def admits(self, host: str) -> bool:
        """Returns whether an address may open one more connection now."""
        rate = self._first(CREATIONS, (Entity(address=host), Entity(address=DEFAULT)))
        rate = self._defaults.get(CREATIONS) if rate is None else rate
        if rate is None:
            return True
        bucket, now_s = self._bucket((CREATIONS, host, None), rate), self._now()
        # A rate below one per second never has a whole token.
        if bucket.owed_s(now_s):
            return False
        bucket.take(1.0, now_s)
        return True

    # --- Limits of a user ---

    def most(self, key: str, user: str) -> float | None:
        """Returns the limit of a user for `key`; None if there is none."""
        if user == REPLICA_USER:
            return None
        quota = self._first(key, (Entity(user), Entity(DEFAULT)))
        return self._defaults.get(key) if quota is None else quota

    def refused(self, user: str) -> None:
        """Counts a request that was refused."""
        self._counts(user)[2] += 1

    # --- Buckets ---

    def _buckets_of(self, user: str, client: str) -> dict[str, Bucket]:
        buckets = self._clients.get((user, client))
        if buckets is None:
            if len(self._clients) >= QUOTA_CLIENTS_REMEMBERED_MAX:
                self._clients.clear()
            buckets = self._clients[user, client] = self._resolved(user, client)
        return buckets

    def _resolved(self, user: str, client: str) -> dict[str, Bucket]:
        """Returns a bucket for each key. As in Kafka, the first of these entities that has a quota decides.

        Replicas have none: every put waits for them.
        """
        if user == REPLICA_USER:
            return {}
        entities = (
            Entity(user, client),
            Entity(user, DEFAULT),
            Entity(user),
            Entity(DEFAULT, client),
            Entity(DEFAULT, DEFAULT),
            Entity(DEFAULT),
            Entity(None, client),
            Entity(None, DEFAULT),
        )
        buckets = {}
        for key in RATES:
            entity = next((each for each in entities if key in self._quotas.get(each, {})), None)
            rate = self._defaults.get(key) if entity is None else self._quotas[entity][key]
            if rate is not None:
                # A quota of the configuration is one bucket per user. A quota that was set is shared by all users and
                # clients of its entity.
                scope = Entity(user) if entity is None else entity
                shared = None if scope.user is None else user, None if scope.client is None else client
                buckets[key] = self._bucket((key, *shared), rate / PERCENT if key == TIME else rate)
        return buckets

    def _bucket(self, scope: Scope, rate: float) -> Bucket:
        bucket = self._buckets.get(scope)
        if bucket is None:
            if len(self._buckets) >= QUOTA_CLIENTS_REMEMBERED_MAX:
                self._forget_buckets()
            bucket = self._buckets[scope] = Bucket(rate, self._now())
        bucket.rate = rate
        return bucket

    def _forget_buckets(self) -> None:
        """Forgets the buckets that are full again, because they equal new ones. Forgets all if none is full."""
        now_s = self._now()
        for bucket in self._buckets.values():
            bucket.owed_s(now_s)
        self._buckets = {scope: bucket for scope, bucket in self._buckets.items() if not bucket.is_full}
        if len(self._buckets) >= QUOTA_CLIENTS_REMEMBERED_MAX:
            self._buckets.clear()
        self._clients.clear()

    def _first(self, key: str, entities: Sequence[Entity]) -> float | None:
        return next((self._quotas[each][key] for each in entities if key in self._quotas.get(each, {})), None)

    def _counts(self, user: str) -> list[float]:
        if user not in self.throttled and len(self.throttled) >= QUOTA_USERS_SHOWN_MAX:
            user = OTHERS
        return self.throttled.setdefault(user, [0, 0.0, 0])
