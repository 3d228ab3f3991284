"""The parameters of puts are declared once, in `warren.api`, and every put has exactly those."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import warren
import warren.aio
from tests.support.broker.running import running_broker
from tests.support.patience import WAIT_S, run
from warren import api
from warren.queue.batching import Batching
from warren.queue.topic import Topic
from warren.storage.format.columns import Batch
from warren.storage.log import Log
from warren.transaction.transaction import Transaction


def test_the_fields_of_a_message_are_the_options_of_a_put() -> None:
    assert get_type_hints(api.MessageFields) == get_type_hints(api.FieldOptions)


def test_the_columns_of_a_batch_are_the_options_of_a_put_of_many() -> None:
    assert set(Batch._fields[1:]) == set(api.ColumnOptions.__annotations__)


@pytest.mark.parametrize(
    ("put", "options", "others"),
    [
        (Log.append, api.FieldOptions, set()),
        (Topic.put, api.PutOptions, {"delay", "deliver_at"}),
        (Transaction.put, api.MessageOptions, {"delay", "deliver_at"}),
        (Batching.put, api.MessageOptions, {"wait"}),
    ],
    ids=lambda each: getattr(each, "__qualname__", ""),
)
def test_a_hot_put_that_spells_its_parameters_out_has_those_of_the_contract(
    put: Callable[..., Any], options: Any, others: set[str]
) -> None:
    parameters = inspect.signature(put).parameters.values()
    spelled = {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}

    assert set(spelled) - others == set(options.__annotations__)
    assert {name: spelled[name] for name in api.MessageFields._fields} == api.MessageFields._field_defaults


def puts_of(store: Any) -> Iterator[Callable[..., Any]]:
    """Yields the puts of every object of a store."""
    topic = store.topic("orders")
    log = topic.partition(0)
    transaction, producer, batching = store.transaction(), store.producer("loader"), store.batching()
    yield lambda **options: topic.put(b"1", **options)
    yield lambda **options: topic.put_many([b"1"], **options)
    yield lambda **options: log.append(b"1", **options)
    yield lambda **options: log.append_many([b"1"], **options)
    yield lambda **options: transaction.put("orders", b"1", **options)
    yield lambda **options: transaction.put_many("orders", [b"1"], **options)
    yield lambda **options: producer.put("orders", b"1", **options)
    yield lambda **options: producer.put_many("orders", [b"1"], **options)
    yield lambda **options: batching.put("orders", b"1", **options)
    batching.close()
    producer.close()
    transaction.commit()


@pytest.fixture(params=["embedded", "broker"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "embedded":
        with warren.open(tmp_path, durability="os") as store:
            yield store
        return
    with running_broker(tmp_path) as broker, warren.connect(broker.address, timeout=WAIT_S) as store:
        yield store


@pytest.mark.parametrize("option", ["kye", "compression"])
def test_every_put_names_an_option_that_it_does_not_know_and_puts_nothing(store: Any, option: str) -> None:
    for put in puts_of(store):
        with pytest.raises(TypeError, match=f"'{option}'"):
            put(**{option: b"1"})

    assert store.topic("orders").partition(0).end == 0


def test_an_append_to_a_partition_takes_no_delay_and_no_other_partition(store: Any) -> None:
    log = store.topic("orders").partition(0)

    for option in ("delay", "deliver_at", "partition", "reply_to"):
        with pytest.raises(TypeError, match=f"'{option}'"):
            log.append(b"1", **{option: 1})

    assert log.end == 0
    assert list(store.topic("orders").scheduled()) == []


def test_every_asyncio_put_names_an_option_that_it_does_not_know(tmp_path: Path) -> None:
    async def work() -> None:
        async with warren.aio.open(tmp_path, durability="os") as store:
            wrong: Any = {"kye": b"1"}
            topic: Any = await store.topic("orders")
            transaction: Any = await store.transaction()
            producer: Any = await store.producer("loader")
            batching: Any = store.batching()
            attempts: list[Callable[[], Any]] = [
                lambda: topic.put(b"1", **wrong),
                lambda: topic.put_many([b"1"], **wrong),
                lambda: transaction.put("orders", b"1", **wrong),
                lambda: transaction.put_many("orders", [b"1"], **wrong),
                lambda: producer.put("orders", b"1", **wrong),
                lambda: producer.put_many("orders", [b"1"], **wrong),
                lambda: batching.put("orders", b"1", **wrong),
            ]
            for attempt in attempts:
                with pytest.raises(TypeError, match="'kye'"):
                    await attempt()
            await batching.close()

            assert await (await topic.partition(0)).end() == 0

    run(work())
