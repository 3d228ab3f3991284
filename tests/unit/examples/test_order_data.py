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
    """What was put, and what is there when all of it is due."""
    clock = SimulatedClock()
    with quick_store(folder, clock=clock) as store:
        topic = store.topic("orders", 2)
        done = put_orders(topic, count, seed=seed)
        scheduled = len(list(topic.scheduled()))
        clock.sleep(orders.DELAY_S + 1)
        while store.keep() <= 0:
            pass
        assert scheduled == done.delayed
        return done, list(topic.since(0))


def parsed(message: Message) -> dict[str, object] | None:
    try:
        found: dict[str, object] = json.loads(message.body)
    except ValueError:
        return None
    return found if "id" in found and isinstance(found["amount"], float) else None


def test_orders_have_the_documented_fields(tmp_path: Path) -> None:
    done, messages = put(tmp_path)

    good = [found for found in map(parsed, messages) if found is not None]
    times = [datetime.fromisoformat(str(found["ordered_at"])).timestamp() for found in good]
    assert (done.orders, len(messages), len(messages) - len(good)) == (COUNT, COUNT, done.broken)
    assert (done.broken, done.delayed) == (30, 60)
    assert len({found["id"] for found in good}) == len(good)
    assert set(good[0]) == {column.split()[0] for column in orders.SCHEMA.split(", ")}
    assert max(times) <= START_NS / 1e9
    assert 3500 < max(times) - min(times) < 3720


def test_a_key_is_the_customer_and_a_tag_the_place(tmp_path: Path) -> None:
    _, messages = put(tmp_path, 2000)

    countries = {tag: country for tag, country, _ in orders.REGIONS}
    for message in messages:
        found = parsed(message)
        if found is not None:
            assert message.key == str(found["customer"]).encode()
            assert countries[message.tag] == found["country"]
    assert {message.tag for message in messages} == set(countries)


def test_a_seed_always_gives_the_same_orders(tmp_path: Path) -> None:
    again = [[message.body for message in put(tmp_path / name, 1000, seed)[1]] for name, seed in [("a", 1), ("b", 1)]]

    assert again[0] == again[1]
    assert again[0] != [message.body for message in put(tmp_path / "c", 1000, 2)[1]]
