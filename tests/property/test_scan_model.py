"""Any log, read and scanned in any way, gives the same as a plain list of the same messages."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.kafka_batches import packed_rows
from tests.support.moody_filesystem import MoodyFileSystem
from tests.support.simulated_clock import SimulatedClock
from warren.message import NO_CORR_OFFSET, NO_HEADERS
from warren.storage import Log
from warren.storage.format.tags import TagFilter

COLUMNS = ("number", "offset", "timestamp", "id", "tag", "key", "headers", "corr_offset", "body")
TAGS = ("", "eu.de", "eu.fr", "us", "é")
KEYS = (None, b"", b"k", b"key\0" * 5)
HEADERS: tuple[Mapping[str, bytes], ...] = (NO_HEADERS, {"a": b""}, {"trace": b"1", "x": b"yy"}, {"": b"\xff" * 300})
FILTERS = (None, "#", "eu.*", "us;eu.fr", "é", "nothing")
SIZES = {"same": (40,), "few": (7, 8, 130, 131), "none": (0,), "some": (0, 3, 64, 900, 2), "large": (9_000, 11, 70_000)}
KAFKA_COUNT = 60
DISK = MoodyFileSystem(really_syncs=False)


class Kind(NamedTuple):
    """The fields that messages have: different for each, or missing."""

    sizes: str
    has_tags: bool
    has_keys: bool
    has_ids: bool
    has_headers: bool
    has_corr_offsets: bool


class Step(NamedTuple):
    """Messages of one kind, one by one or as a batch, ours or Kafka's; or none: the log is retired or opened again."""

    what: str
    messages: int
    kind: Kind
    pause_us: int


KINDS = st.builds(Kind, st.sampled_from(sorted(SIZES)), *[st.booleans()] * 5)
COUNTS = st.sampled_from([1, 2, 5, 23, 24, 64, 65, 130, 200, 700])
STEPS = st.builds(
    Step,
    st.sampled_from(["singles", "singles", "batch", "batch", "kafka", "kafka", "retire", "reopen"]),
    COUNTS,
    KINDS,
    st.sampled_from([0, 0, 1_000, 5_000_000]),
)


@dataclass(slots=True)
class Model:
    """The expected content of the log: a row for each existing message, as a scan returns it."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    first: int = 0

    @property
    def end(self) -> int:
        return self.first + len(self.rows)

    def scanned(self, query: Query) -> list[dict[str, Any]]:
        tag_filter = TagFilter.parse(query.tag) if query.tag is not None else None
        return [
            {name: row[name] for name in query.columns}
            for row in self.rows
            if query.start <= row["number"] < query.end
            and query.since <= row["timestamp"] < query.until
            and (tag_filter is None or tag_filter.matches(row["tag"]))
        ]


class Query(NamedTuple):
    """A scan."""

    start: int
    end: int
    columns: Sequence[str]
    tag: str | None
    since: int
    until: int


def fields(number: int, kind: Kind) -> dict[str, Any]:
    """Returns the message that gets this number: different from its neighbours, but similar to them."""
    sizes = SIZES[kind.sizes]
    return {
        "body": bytes([number % 251]) * sizes[number % len(sizes)],
        "tag": TAGS[number // 3 % len(TAGS)] if kind.has_tags else "",
        "key": KEYS[number % len(KEYS)] if kind.has_keys else None,
        "id": f"id-{number % 1000}"[: number % 9] if kind.has_ids else "",
        "headers": HEADERS[number % len(HEADERS)] if kind.has_headers else NO_HEADERS,
        "corr_offset": number * 7 if kind.has_corr_offsets else NO_CORR_OFFSET,
    }


class World:
    """A log, and the model of it."""

    def __init__(self, path: str, *, compression: str, block_size: int, version: int) -> None:
        self._path, self._clock, self.model = path, SimulatedClock(), Model()
        self._options: dict[str, Any] = {"version": version, "compression": compression, "block_size": block_size}
        self.log = self._open()

    def _open(self) -> Log:
        return Log.open(self._path, durability="os", filesystem=DISK, clock=self._clock, **self._options)

    def do(self, step: Step) -> None:
        self._clock.pass_ns(step.pause_us * 1000)
        kind, count = step.kind, step.messages
        if kind.sizes == "large":
            count = min(count, 24)
        if self._options["version"] == 1:
            kind = kind._replace(has_keys=False, has_headers=False)
        match step.what:
            case "singles":
                for number in range(self.model.end, self.model.end + count):
                    receipt = self.log.append(**fields(number, kind))
                    self._note([fields(number, kind)], offset=receipt.offset)
            case "kafka" if self._options["version"] == 2:
                messages = [fields(number, kind) for number in range(self.model.end, self.model.end + count)]
                self._append_kafka(messages, 1 if kind.sizes == "large" else KAFKA_COUNT)
                self._note(messages, offset=None)
            case "batch" | "kafka":
                messages = [fields(number, kind) for number in range(self.model.end, self.model.end + count)]
                self._append_many(messages, kind)
                self._note(messages, offset=None)
            case "retire":
                before = self.model.first + len(self.model.rows) // 2
                first = self.log.retire(before=before)
                self.model.rows, self.model.first = self.model.rows[first - self.model.first :], first
            case "reopen":
                self.log.close()
                self.log = self._open()

    def _append_many(self, messages: Sequence[Mapping[str, Any]], kind: Kind) -> None:
        columns = {"tags": kind.has_tags, "keys": kind.has_keys, "ids": kind.has_ids, "headers": kind.has_headers}
        options: dict[str, Any] = {
            name: [message[name.removesuffix("s") if name != "headers" else name] for message in messages]
            for name, is_given in {**columns, "corr_offsets": kind.has_corr_offsets}.items()
            if is_given
        }
        self.log.append_many([message["body"] for message in messages], **options)

    def _append_kafka(self, messages: Sequence[Mapping[str, Any]], count: int) -> None:
        """As batches of `count`, which fit into a block, each with another compression."""
        places = range(0, len(messages), count)
        batches = [messages[place : place + count] for place in places]
        self.log.append_packed(
            [packed_rows(batch, compression=(len(batch) + place) % 5) for place, batch in enumerate(batches)]
        )

    def _note(self, messages: Sequence[Mapping[str, Any]], offset: int | None) -> None:
        now_us = self._clock.now_ns() // 1000
        if self._options["version"] == 1:
            now_us = now_us // 1000 * 1000
        for message in messages:
            row = {"number": self.model.end, "offset": offset, "timestamp": now_us, **message}
            self.model.rows.append(row)

    def check_read(self, limit: int, bytes_max: int | None, tag: str | None) -> None:
        """Page by page, each as full as possible, everything is read once and in order."""
        tag_filter = TagFilter.parse(tag) if tag is not None else None
        expected = [row for row in self.model.rows if tag_filter is None or tag_filter.matches(row["tag"])]
        number, place = self.model.first, 0
        while place < len(expected):
            page = self.log.read(number, limit=limit, bytes_max=bytes_max, tag=tag)
            count = page_size(expected[place:], limit, bytes_max)
            assert [message.number for message in page] == [row["number"] for row in expected[place : place + count]]
            for message, row in zip(page, expected[place:], strict=False):
                values = {name: getattr(message, name) for name in COLUMNS}
                row["offset"] = values["offset"] if row["offset"] is None else row["offset"]
                assert values == row
            number, place = page[-1].number + 1, place + count
        assert self.log.read(number, limit=limit, tag=tag) == []

    def check_scan(self, query: Query) -> None:
        batches = list(
            self.log.scan(
                query.start,
                query.end,
                columns=query.columns,
                tag=query.tag,
                since=query.since,
                until=query.until,
            )
        )

        for batch in batches:
            batch.validate(full=True)
        assert rows_of(batches) == self.model.scanned(query)
        assert all(batch.num_rows for batch in batches)


def page_size(rows: Sequence[Mapping[str, Any]], limit: int, bytes_max: int | None) -> int:
    """Returns how many of the rows fill a page."""
    count, size = 0, 0
    for row in rows[:limit]:
        size += len(row["body"])
        if bytes_max is not None and size > bytes_max and count:
            break
        count += 1
    return count


def rows_of(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The rows of some record batches, with times in µs and headers as mappings."""
    rows = []
    for batch in batches:
        if "timestamp" in batch.schema.names:
            place = batch.schema.get_field_index("timestamp")
            columns = [column.cast("int64") if at == place else column for at, column in enumerate(batch.columns)]
            batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        for row in batch.to_pylist():
            if "headers" in row:
                row["headers"] = dict(row["headers"])
            rows.append(row)
    return rows


@st.composite
def queries(draw: st.DrawFn, model: Model) -> Query:
    """Some range of numbers and of time, any columns, any filter."""
    start = draw(st.integers(model.first, model.end))
    end = draw(st.integers(start, model.end + 3))
    columns = draw(st.permutations(COLUMNS).flatmap(lambda names: st.integers(1, 9).map(lambda count: names[:count])))
    times = sorted({row["timestamp"] for row in model.rows}) or [0]
    edges = st.sampled_from([0, times[0], times[0] + 1, times[-1], times[-1] + 1, times[len(times) // 2], 1 << 60])
    since, until = draw(st.just((0, 1 << 60)) | st.tuples(edges, edges))
    return Query(start, end, columns, draw(st.sampled_from(FILTERS)), since, until)


@settings(max_examples=examples(120))
@given(
    st.data(),
    st.lists(STEPS, min_size=1, max_size=8),
    st.sampled_from(["none", "none", "zstd", "lz4"]),
    st.sampled_from([128 << 10, 256 << 10, 1 << 20]),
)
def test_a_log_matches_its_model(data: st.DataObject, steps: list[Step], compression: str, block_size: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        world = World(path, compression=compression, block_size=block_size, version=2)
        check(world, data, steps)


@settings(max_examples=examples(25))
@given(st.data(), st.lists(STEPS, min_size=1, max_size=4))
def test_a_log_of_version_1_matches_its_model(data: st.DataObject, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as path:
        world = World(path, compression="none", block_size=128 << 10, version=1)
        check(world, data, steps)


def check(world: World, data: st.DataObject, steps: Sequence[Step]) -> None:
    for step in steps:
        world.do(step)
    world.check_read(limit=1 << 20, bytes_max=None, tag=None)
    limit, bytes_max = data.draw(st.sampled_from([7, 100, 1000])), data.draw(st.sampled_from([None, 0, 500, 100_000]))
    world.check_read(limit, bytes_max, data.draw(st.sampled_from(FILTERS)))
    world.check_scan(Query(world.model.first, world.model.end, COLUMNS, None, 0, 1 << 60))
    for _ in range(4):
        world.check_scan(data.draw(queries(world.model)))
    world.log.close()
