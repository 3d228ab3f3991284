from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from tests.support.simulated_clock import START_NS, SimulatedClock
from tests.support.store.stores import quick_store
from warren.examples.demo import order_data as orders
from warren.examples.demo.order_data import Put, put_orders
from warren.message import Message

COUNT = orders.BATCH + 10_000


def put(folder: Path, count: int = COUNT, seed: int = 1) -> tuple[Put, list[Message]]:
    """Puts orders. Returns them, and the messages that exist when all of them are due."""
    clock = SimulatedClock()
    with quick_store(folder, clock=clock) as store:
        topic = store.topic("orders", 2)
        report = put_orders(topic, count, seed=seed)
        scheduled = len(list(topic.scheduled()))
        clock.sleep(orders.DELAY_S + 1)
        while store.keep() <= 0:
            pass
        assert scheduled == report.delayed
        return report, list(topic.since(0))


def parsed(message: Message) -> dict[str, object] | None:
    try:
        order: dict[str, object] = json.loads(message.body)
    except ValueError:
        return None
    return order if "id" in order and isinstance(order["amount"], float) else None


def test_orders_have_the_documented_fields(tmp_path: Path) -> None:
    report, messages = put(tmp_path)

    good = [order for order in map(parsed, messages) if order is not None]
    times = [datetime.fromisoformat(str(order["ordered_at"])).timestamp() for order in good]
    assert (report.orders, len(messages), len(messages) - len(good)) == (COUNT, COUNT, report.broken)
    assert (report.broken, report.delayed) == (30, 60)
    assert len({order["id"] for order in good}) == len(good)
    assert set(good[0]) == {column.split()[0] for column in orders.SCHEMA.split(", ")}
    assert max(times) <= START_NS / 1e9
    assert 3500 < max(times) - min(times) < 3720


def test_a_key_is_the_customer_and_a_tag_the_place(tmp_path: Path) -> None:
    _, messages = put(tmp_path, 2000)

    countries = {tag: country for tag, country, _ in orders.REGIONS}
    for message in messages:
        order = parsed(message)
        if order is not None:
            assert message.key == str(order["customer"]).encode()
            assert countries[message.tag] == order["country"]
    assert {message.tag for message in messages} == set(countries)


def test_a_seed_always_gives_the_same_orders(tmp_path: Path) -> None:
    again = [[message.body for message in put(tmp_path / name, 1000, seed)[1]] for name, seed in [("a", 1), ("b", 1)]]

    assert again[0] == again[1]
    assert again[0] != [message.body for message in put(tmp_path / "c", 1000, 2)[1]]
