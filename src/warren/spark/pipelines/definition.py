"""The definition of a pipeline, parsed from its file. Every key is checked. Needs no Spark."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from warren.errors import BadInput, BadPipeline
from warren.settings import Count, Flag, OneOf, Table, hint, regular_expression, setting
from warren.spark.pipelines import keys

PIPELINE_FILE_SIZE_MAX: Final = 1 << 20
PIPELINE_STEPS_MAX: Final = 100

Section = TypeVar("Section")
IN_PYTHON: Final = "the pipeline"
"""Stands for the name of the file in errors about a pipeline that is a dict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineHead:
    """`[pipeline]`: its name, when it reads messages, and where it stores its state."""

    name: str = setting(keys.NAME, "the name of the pipeline, and of its group unless `source.group` names another", "")
    trigger: str = setting(
        keys.TRIGGER,
        "`available-now` (once), `continuous` (until it is stopped) or an interval, such as `10 seconds`",
        "available-now",
    )
    store: str | None = setting(
        keys.TEXT, "the directory of the store; `--store` and `WARREN_STORE` take precedence", None
    )
    servers: str | None = setting(
        keys.TEXT, "instead: the broker that serves the store, such as `host:9092`, or some brokers of a cluster", None
    )
    rack: str | None = setting(
        keys.TEXT, "with `servers`: messages are read from a slave with this `cluster.rack` if there is one", None
    )
    user: str | None = setting(keys.TEXT, "with `servers`: the user that connects", None)
    password_file: str | None = setting(keys.TEXT, "with `servers`: the file that holds the password", None)
    tls: bool = setting(Flag(), "with `servers`: connect with TLS", False)
    tls_ca: str | None = setting(keys.TEXT, "with `servers`: TLS, and the certificates to trust, as a file", None)
    checkpoint: str | None = setting(
        keys.TEXT,
        "where Spark stores its progress; by default `pipelines/<name>/checkpoint` in the store, or next to the file",
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`[source]`: which messages are read, and the format of their values."""

    topics: tuple[str, ...] = setting(keys.TOPICS, "the topics to read", ())
    topics_pattern: str | None = setting(
        regular_expression(), "instead: a regular expression for the names of topics", None
    )
    tag: str | None = setting(keys.TAG, "only messages whose tag matches this filter", None)
    format: str = setting(OneOf(("binary", "text", "json", "csv")), "the format of the values", "binary")
    schema: str | None = setting(
        keys.TEXT, "for json and csv: the columns of a value, such as `id long, amount double`", None
    )
    starting: str = setting(
        keys.START,
        "where the first run starts: `earliest`, `latest`, a time, `-10 minutes`, or `{ orders = { 0 = 41 } }`",
        "earliest",
    )
    max_per_trigger: int | None = setting(Count(1), "the largest number of messages in one batch", None)
    max_bytes_per_trigger: int | None = setting(Count(1), "roughly the largest number of bytes in one batch", None)
    fail_on_data_loss: bool = setting(Flag(), "stop if messages were retired before they were read", True)
    group: str | None = setting(keys.GROUP, "the group that shows the progress of the pipeline; empty for none", None)
    columns: tuple[str, ...] | None = setting(
        keys.COLUMNS,
        "only these columns of the message, and `value`: fewer are faster; by default all but `headers`",
        None,
    )
    headers: bool = setting(Flag(), "adds a column `headers`", False)
    archive: str | None = setting(keys.TEXT, "the directory of an archive, which is read before the log", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`[[step]]`: one change of the rows of the previous step: one of ACTIONS, or a watermark alone."""

    name: str | None = setting(keys.VIEW, "a view from which later steps may select, as they may from `input`", None)
    watermark: tuple[str, str] | None = setting(
        keys.WATERMARK, "how long to wait for late rows, before this step: `timestamp 30 seconds`", None
    )
    sql: str | None = setting(keys.TEXT, "a query; `input` is the result of the previous step", None)
    dedupe: tuple[str, ...] | None = setting(keys.COLUMNS, "drop rows that equal an earlier one in these columns", None)
    within: str | None = setting(
        keys.INTERVAL, "with dedupe: how long a row is remembered, by the column `timestamp`", None
    )
    python: tuple[str, str] | None = setting(
        keys.ENTRY, "a function that takes and returns a DataFrame: `module:function`", None
    )
    dead_letter: str | None = setting(
        keys.TOPIC, "first step only: the topic for messages that do not match format and schema", None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """`[sink]`: where the rows go. Exactly one of TARGETS."""

    topic: str | None = setting(keys.TOPIC, "a topic of the same store; created if it does not exist", None)
    parquet: str | None = setting(keys.TEXT, "a directory of Parquet files", None)
    table: str | None = setting(keys.TEXT, "a table of Spark's catalog", None)
    console: bool = setting(Flag(), "show the rows in the terminal", False)
    format: str | None = setting(
        OneOf(("json", "text", "binary")),
        "of a topic: `json` makes an object of the row; otherwise the column `value` is used",
        None,
    )
    key: str | None = setting(keys.COLUMN, "of a topic: the column that becomes the message's key", None)
    tag: str | None = setting(keys.COLUMN, "of a topic: the column that becomes the message's tag", None)
    id: str | None = setting(keys.COLUMN, "of a topic: the column that becomes the message's id", None)
    partitions: int | None = setting(Count(1), "of a new topic: its number of partitions", None)
    partition_by: tuple[str, ...] | None = setting(
        keys.COLUMNS, "of parquet and table: a directory for each value of these columns", None
    )
    mode: str | None = setting(
        OneOf(("append", "update", "complete")), "which rows are written; see [modes](#which-rows-come-out)", None
    )


SECTIONS: Final[Mapping[str, Table]] = {
    "pipeline": Table.of("key", PipelineHead),
    "source": Table.of("key", Source),
    "step": Table.of("key", Step),
    "sink": Table.of("key", Sink),
}
ACTIONS: Final = ("sql", "dedupe", "python", "dead_letter")
TARGETS: Final = ("topic", "parquet", "table", "console")
BROKER_KEYS: Final = ("rack", "user", "password_file", "tls", "tls_ca")
TOPIC_KEYS: Final = ("format", "key", "tag", "id", "partitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A whole pipeline. Invariant: every key has a valid value, and no two keys contradict each other.

    Errors name `file`. Paths in it are relative to `directory`, and modules are imported from there.
    """

    pipeline: PipelineHead
    source: Source
    steps: tuple[Step, ...]
    sink: Sink
    file: str
    directory: str

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Definition:
        """Parses a pipeline file. Raises BadPipeline, which names the key, if it is not valid."""
        file = os.fspath(path)
        try:
            with open(file, "rb") as opened:
                content = opened.read(PIPELINE_FILE_SIZE_MAX + 1)
            if len(content) > PIPELINE_FILE_SIZE_MAX:
                raise BadPipeline(file, "", f"it is over {PIPELINE_FILE_SIZE_MAX} bytes, so it is not a pipeline file")
            tables = tomllib.loads(content.decode())
        except OSError as error:
            raise BadPipeline(file, "", f"cannot be read: {error.strerror}") from error
        except BadPipeline:
            raise
        except (ValueError, RecursionError) as error:
            # Not only TOMLDecodeError: a number with thousands of digits raises a plain ValueError.
            raise BadPipeline(file, "", f"is not TOML: {error}; write each key on its own line") from error
        return cls.of(tables, file=file, directory=os.path.dirname(os.path.abspath(file)))

    @classmethod
    def of(cls, tables: Mapping[str, Any], *, file: str = IN_PYTHON, directory: str | None = None) -> Definition:
        """Returns the pipeline of these sections, which have the form of parsed TOML. Raises BadPipeline."""
        _check_names(file, "", tables, SECTIONS)
        steps = tables.get("step", [])
        if not isinstance(steps, Sequence) or isinstance(steps, str) or len(steps) > PIPELINE_STEPS_MAX:
            raise BadPipeline(file, "step", f"expected at most {PIPELINE_STEPS_MAX} tables, each headed [[step]]")
        definition = cls(
            pipeline=_section(PipelineHead, file, "pipeline", tables.get("pipeline", {})),
            source=_section(Source, file, "source", tables.get("source", {})),
            steps=tuple(_section(Step, file, f"step {number}", step) for number, step in enumerate(steps, 1)),
            sink=_section(Sink, file, "sink", tables.get("sink", {})),
            file=file,
            directory=os.path.abspath(directory or os.curdir),
        )
        definition._check()
        return definition

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def group(self) -> str:
        """Returns the group that shows the progress of the pipeline; empty for none."""
        return self.name if self.source.group is None else self.source.group

    @property
    def dead_letter(self) -> str | None:
        """Returns the topic for messages that do not parse; None if such a message stops the pipeline."""
        return self.steps[0].dead_letter if self.steps else None

    @property
    def is_endless(self) -> bool:
        """Returns whether the pipeline runs until it is stopped."""
        return self.pipeline.trigger != "available-now"

    def triggered(self, trigger: str | None) -> Definition:
        """Returns the same pipeline with another trigger; None changes nothing. Raises BadInput."""
        if trigger is None:
            return self
        return dataclasses.replace(
            self, pipeline=dataclasses.replace(self.pipeline, trigger=keys.TRIGGER.parse(trigger))
        )

    def located(self, path: str) -> str:
        """Returns a path of the file as an absolute path. A URL, such as `hdfs://…`, stays as it is."""
        return path if "://" in path else os.path.normpath(os.path.join(self.directory, path))

    def _check(self) -> None:
        if not self.name:
            raise self.complaint("pipeline.name", "is missing: the pipeline needs a name")
        self._check_store()
        self._check_source()
        for number, step in enumerate(self.steps, 1):
            self._check_step(number, step)
        self._check_sink()

    def _check_store(self) -> None:
        head = self.pipeline
        if head.servers is not None and head.store is not None:
            raise self.complaint("pipeline.servers", "set either store or servers")
        key = next((name for name in BROKER_KEYS if getattr(head, name)), None)
        if key is not None and head.servers is None:
            raise self.complaint(f"pipeline.{key}", "needs servers: a directory has no users and no connections")

    def _check_source(self) -> None:
        source = self.source
        if bool(source.topics) == bool(source.topics_pattern):
            raise self.complaint("source", "set either topics or topics_pattern")
        has_columns = source.format in ("json", "csv")
        if has_columns and source.schema is None:
            raise self.complaint("source.schema", f'format "{source.format}" needs it: name the columns of a value')
        if source.schema is not None and not has_columns:
            raise self.complaint("source.schema", 'only values of format "json" or "csv" have columns')
        if self.sink.topic in source.topics:
            raise self.complaint("sink.topic", f"{self.sink.topic!r} is also read, so the pipeline would never end")

    def _check_step(self, number: int, step: Step) -> None:
        place = f"step {number}"
        actions = [name for name in ACTIONS if getattr(step, name) is not None]
        if len(actions) > 1 or not (actions or step.watermark):
            raise self.complaint(place, f"set exactly one of {', '.join(ACTIONS)}; a watermark may be added")
        if step.within is not None and step.dedupe is None:
            raise self.complaint(f"{place}.within", "needs dedupe: within says how long a row is remembered")
        if step.dedupe is not None and (step.within is None) == (step.watermark is None):
            raise self.complaint(
                f"{place}.dedupe", "set either within or watermark, which say how long a row is remembered"
            )
        if step.dead_letter is not None:
            self._check_dead_letter(place, number, step)

    def _check_dead_letter(self, place: str, number: int, step: Step) -> None:
        if number > 1 or step.watermark is not None:
            raise self.complaint(
                place, "dead_letter must be alone in the first step, because it takes unchanged messages"
            )
        if self.source.format == "binary":
            raise self.complaint(place, 'dead_letter: values of format "binary" always fit; set another source.format')
        if step.dead_letter in (self.sink.topic, *self.source.topics):
            raise self.complaint(place, f"dead_letter: {step.dead_letter!r} is also read or written by this pipeline")

    def _check_sink(self) -> None:
        sink = self.sink
        targets = [name for name in TARGETS if getattr(sink, name)]
        if len(targets) != 1:
            raise self.complaint("sink", f"set exactly one of {', '.join(TARGETS)}")
        if targets != ["topic"]:
            key = next((name for name in TOPIC_KEYS if getattr(sink, name) is not None), None)
            if key is not None:
                raise self.complaint(f"sink.{key}", f"is for topics, but this sink is {targets[0]}")
        elif sink.format is None:
            raise self.complaint("sink.format", 'is missing: set "json", "text" or "binary"')
        if sink.partition_by is not None and targets[0] not in ("parquet", "table"):
            raise self.complaint("sink.partition_by", f"is for parquet and table, but this sink is {targets[0]}")

    def complaint(self, key: str, reason: str) -> BadPipeline:
        """Returns the error about one key of this pipeline."""
        return BadPipeline(self.file, key, reason)


def _section(kind: type[Section], file: str, place: str, values: object) -> Section:
    """Parses one section of the file, and checks each key of it. `place` is its name, of a step with its number."""
    if not isinstance(values, Mapping):
        raise BadPipeline(file, place, f"expected a table of keys, not {values!r}")
    table = SECTIONS[place.partition(" ")[0]]
    _check_names(file, place, values, table)
    parsed = {}
    for name, value in values.items():
        try:
            parsed[name] = table[name].kind.check(value)
        except BadInput as error:
            raise BadPipeline(file, f"{place}.{name}", str(error)) from error
    return kind(**parsed)


def _check_names(file: str, place: str, values: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for name in values:
        if name not in settings:
            reason = f"there is no such key; {hint(str(name), settings)}"
            raise BadPipeline(file, f"{place}.{name}" if place else name, reason)
