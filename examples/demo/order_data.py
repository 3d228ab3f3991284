"""Orders of an invented shop: any number of them, the same ones for the same seed, a few of them broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warren.queue.topic import Topic

SEED: Final = 1
BATCH: Final = 50_000
SPAN_US: Final = 3_600_000_000
"""Orders are spread over an hour."""
LATE_US_MAX: Final = 120_000_000
"""At most this long after it was made an order is put."""
LATE_SHARE: Final = 0.02
BROKEN_SHARE: Final = 0.0005
DELAYED_SHARE: Final = 0.001
DELAY_S: Final = 2.0
CUSTOMERS: Final = 20_000

REGIONS: Final = (
    ("eu.de", "de", 0.24),
    ("eu.fr", "fr", 0.17),
    ("eu.it", "it", 0.12),
    ("eu.es", "es", 0.10),
    ("eu.nl", "nl", 0.07),
    ("us.ny", "us", 0.12),
    ("us.ca", "us", 0.10),
    ("asia.jp", "jp", 0.08),
)
"""Tag, country and share of the orders."""
PRODUCTS: Final = (
    ("carrots", 2.40),
    ("turnips", 3.10),
    ("leeks", 1.90),
    ("potatoes", 4.50),
    ("asparagus", 11.80),
    ("truffles", 96.00),
    ("a wheelbarrow", 129.00),
)
"""Name and price."""
SCHEMA: Final = "id long not null, customer string, country string, product string, amount double, ordered_at timestamp"


class Batch(NamedTuple):
    """Orders as messages, column by column."""

    bodies: list[bytes]
    keys: list[bytes | None]
    tags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """How many orders were put, and how many of them are `broken` or were `delayed`."""

    orders: int = 0
    broken: int = 0
    delayed: int = 0


def put_orders(
    topic: Topic,
    count: int,
    *,
    seed: int = SEED,
    delay_s: float = DELAY_S,
    on_batch: Callable[[int], None] = lambda size: None,
) -> Put:
    """Puts `count` orders of the last hour into `topic`, some of them with a delay. Calls `on_batch` with each size."""
    generator = np.random.default_rng(seed)
    end_us = topic.clock.now_ns() // 1000
    broken = delayed = 0
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        batch, faults = orders(
            generator, first, size, end_us - SPAN_US + SPAN_US * first // count, SPAN_US * size // count
        )
        parked = round(size * DELAYED_SHARE)
        later, now = _split(batch, parked)
        if later.bodies:
            topic.put_many(later.bodies, keys=later.keys, tags=later.tags, delay=delay_s)
        topic.put_many(now.bodies, keys=now.keys, tags=now.tags)
        broken, delayed = broken + faults, delayed + parked
        on_batch(size)
    return Put(orders=count, broken=broken, delayed=delayed)


def orders(generator: np.random.Generator, first: int, count: int, start_us: int, span_us: int) -> tuple[Batch, int]:
    """Returns `count` orders from number `first` on, made in `span_us` from `start_us` on, and how many are broken."""
    region = generator.choice(len(REGIONS), count, p=[share for _, _, share in REGIONS])
    product = generator.integers(0, len(PRODUCTS), count)
    # A few customers buy often, most of them buy once.
    customer = np.minimum(generator.zipf(1.3, count), CUSTOMERS) * 7919 % CUSTOMERS
    price = np.array([price for _, price in PRODUCTS])[product]
    cents = np.round(price * generator.integers(1, 6, count) * generator.uniform(0.8, 1.0, count) * 100).astype(
        np.int64
    )
    late_us = np.where(generator.random(count) < LATE_SHARE, generator.integers(0, LATE_US_MAX, count), 0)
    made_us = start_us + np.sort(generator.integers(0, max(span_us, 1), count)) - late_us
    customers = pc.binary_join_element_wise("customer-", _text(customer), "")
    bodies = _joined(
        ('{"id": ', _text(np.arange(first, first + count))),
        (', "customer": "', customers),
        ('", "country": "', _picked([country for _, country, _ in REGIONS], region)),
        ('", "product": "', _picked([name for name, _ in PRODUCTS], product)),
        ('", "amount": ', _decimal(cents)),
        (', "ordered_at": "', _times(made_us)),
        ('"}', pa.array([""] * count)),
    )
    tags = _picked([tag for tag, _, _ in REGIONS], region).to_pylist()
    rows = np.sort(generator.choice(count, round(count * BROKEN_SHARE), replace=False)).tolist()
    for fault, row in enumerate(rows):
        bodies[row] = _broken(bodies[row], fault)
    return Batch(bodies, customers.cast(pa.binary()).to_pylist(), tags), len(rows)


def _broken(body: bytes, fault: int) -> bytes:
    """Returns the body with one of four faults: cut off, a wrong type, a missing field, or not UTF-8."""
    match fault % 4:
        case 0:
            return body[: len(body) // 2]
        case 1:
            return body.replace(b'"amount": ', b'"amount": "EUR ').replace(b', "ordered_at"', b'", "ordered_at"')
        case 2:
            return body.replace(b'"id": ', b'"order": ')
        case _:
            return body.replace(b"customer-", "Kundin-ü".encode("latin-1"))


def _split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """Returns the first `count` orders, and the others."""
    bodies, keys, tags = batch
    return Batch(bodies[:count], keys[:count], tags[:count]), Batch(bodies[count:], keys[count:], tags[count:])


def _joined(*parts: tuple[str, Any]) -> list[bytes]:
    columns = [column for part in parts for column in part]
    return pc.binary_join_element_wise(*columns, "").cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _text(numbers: npt.NDArray[np.int64]) -> Any:
    return pa.array(numbers).cast(pa.string())


def _picked(names: list[str], codes: npt.NDArray[np.int64]) -> Any:
    return pa.array(names).take(pa.array(codes))


def _decimal(cents: npt.NDArray[np.int64]) -> Any:
    fraction = pc.utf8_lpad(_text(cents % 100), 2, padding="0")
    return pc.binary_join_element_wise(_text(cents // 100), ".", fraction, "")


def _times(times_us: npt.NDArray[np.int64]) -> Any:
    seconds = times_us // 1_000_000
    first = int(seconds.min())
    # Each second is formatted once, because there are few seconds and many orders.
    every = pa.array(np.arange(first, int(seconds.max()) + 1)).cast(pa.timestamp("s"))
    return pc.strftime(every, "%Y-%m-%dT%H:%M:%SZ").take(pa.array(seconds - first))
