"""A pipeline as its file defines it: every key checked, nothing started, and no Spark needed to read it."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from warren.config import PIPELINE_FILE_SIZE_MAX, PIPELINE_STEPS_MAX
from warren.errors import BadInput, BadPipeline
from warren.spark.pipelines import keys
from warren.spark.pipelines.keys import setting

Section = TypeVar("Section")
IN_PYTHON: Final = "the pipeline"
"""What stands for the file's name in complaints about a pipeline that was given as a dict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """`[pipeline]`: its name, when it looks for messages, and where it keeps what it must remember."""

    name: str = setting(keys.name, "what it is called; also its group, unless `source.group` says otherwise", "")
    trigger: str = setting(
        keys.trigger,
        "`available-now` (once), `continuous` (for ever) or every so often, as `10 seconds`",
        "available-now",
    )
    store: str | None = setting(keys.text, "the directory of the store; `--store` and `WARREN_STORE` go before it")
    servers: str | None = setting(keys.text, "instead: the broker that serves the store, as `host:9092`")
    user: str | None = setting(keys.text, "with `servers`: who connects")
    password_file: str | None = setting(keys.text, "with `servers`: the file that holds the password")
    tls: bool = setting(keys.flag, "with `servers`: connect with TLS", False)
    tls_ca: str | None = setting(keys.text, "with `servers`: TLS, with whom to trust, as a file of certificates")
    checkpoint: str | None = setting(
        keys.text,
        "where Spark notes how far it came; else `pipelines/<name>/checkpoint` in the store, or beside the file",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`[source]`: which messages are read, and what their values are."""

    topics: tuple[str, ...] = setting(keys.topics, "the topics to read", ())
    topics_pattern: str | None = setting(keys.pattern, "instead: a regular expression for the names of topics")
    tag: str | None = setting(keys.tag_filter, "only messages whose tag passes this filter")
    format: str = setting(keys.one_of("binary", "text", "json", "csv"), "what values are", "binary")
    schema: str | None = setting(keys.text, "for json and csv: the columns in a value, as `id long, amount double`")
    starting: str = setting(
        keys.starting,
        "where the first run starts: `earliest`, `latest`, a time, `-10 minutes`, or `{ orders = { 0 = 41 } }`",
        "earliest",
    )
    max_per_trigger: int | None = setting(keys.count, "at most so many messages in one batch")
    max_bytes_per_trigger: int | None = setting(keys.count, "at most about so many bytes in one batch")
    fail_on_data_loss: bool = setting(keys.flag, "stop where messages were retired before they were read", True)
    group: str | None = setting(keys.group, "the group that shows how far it came; empty for none")
    columns: tuple[str, ...] | None = setting(
        keys.columns, "only these columns of the message, and `value`: the fewer, the faster; else all but `headers`"
    )
    headers: bool = setting(keys.flag, "have a column `headers`", False)
    archive: str | None = setting(keys.text, "an archive's directory, read before the log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`[[step]]`: one thing that happens to the rows of the step before. One of ACTIONS, or a watermark alone."""

    name: str | None = setting(keys.view, "later steps may select from this view, as they may from `input`")
    watermark: tuple[str, str] | None = setting(
        keys.watermark, "how long to wait for late rows, before this step: `timestamp 30 seconds`"
    )
    sql: str | None = setting(keys.text, "a query; `input` is the step before")
    dedupe: tuple[str, ...] | None = setting(keys.columns, "drop rows that equal an earlier one in these columns")
    within: str | None = setting(keys.interval, "with dedupe: how long a row is remembered, by the column `timestamp`")
    python: tuple[str, str] | None = setting(keys.entry, "a function of a DataFrame that gives one: `module:function`")
    dead_letter: str | None = setting(
        keys.topic, "first step only: the topic for messages that do not fit format and schema"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """`[sink]`: where the rows go. Exactly one of TARGETS."""

    topic: str | None = setting(keys.topic, "a topic of the same store, made where it is missing")
    parquet: str | None = setting(keys.text, "a directory of Parquet files")
    table: str | None = setting(keys.text, "a table of Spark's catalog")
    console: bool = setting(keys.flag, "show the rows in the terminal", False)
    format: str | None = setting(
        keys.one_of("json", "text", "binary"),
        "of a topic: `json` makes an object of the row, else the column `value` is taken",
    )
    key: str | None = setting(keys.column, "of a topic: the column that becomes the message's key")
    tag: str | None = setting(keys.column, "of a topic: the column that becomes the message's tag")
    id: str | None = setting(keys.column, "of a topic: the column that becomes the message's id")
    partitions: int | None = setting(keys.count, "of a topic that is made: how many partitions it gets")
    partition_by: tuple[str, ...] | None = setting(
        keys.columns, "of parquet and table: a directory for each value of these"
    )
    mode: str | None = setting(
        keys.one_of("append", "update", "complete"), "which rows come out; see [modes](#which-rows-come-out)"
    )


SECTIONS: Final[Mapping[str, type]] = {"pipeline": Head, "source": Source, "step": Step, "sink": Sink}
ACTIONS: Final = ("sql", "dedupe", "python", "dead_letter")
TARGETS: Final = ("topic", "parquet", "table", "console")
BROKER_KEYS: Final = ("user", "password_file", "tls", "tls_ca")
TOPIC_KEYS: Final = ("format", "key", "tag", "id", "partitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A whole pipeline. Invariant: every key is of its kind, and none contradicts another.

    `file` is what complaints name; paths in it are relative to `directory`, and modules are found there.
    """

    pipeline: Head
    source: Source
    steps: tuple[Step, ...]
    sink: Sink
    file: str
    directory: str

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Definition:
        """The pipeline that a file defines; BadPipeline, naming the key, where it does not."""
        file = os.fspath(path)
        try:
            with open(file, "rb") as opened:
                content = opened.read(PIPELINE_FILE_SIZE_MAX + 1)
            if len(content) > PIPELINE_FILE_SIZE_MAX:
                raise BadPipeline(file, "", f"it is over {PIPELINE_FILE_SIZE_MAX} bytes: not a pipeline file")
            tables = tomllib.loads(content.decode())
        except OSError as error:
            raise BadPipeline(file, "", f"cannot be read: {error.strerror}") from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadPipeline(file, "", f"is not TOML: {error}; each key stands on a line of its own") from error
        return cls.of(tables, file=file, directory=os.path.dirname(os.path.abspath(file)))

    @classmethod
    def of(cls, tables: Mapping[str, Any], *, file: str = IN_PYTHON, directory: str | None = None) -> Definition:
        """The pipeline that these sections define, as TOML would give them."""
        _check_names(file, "", tables, SECTIONS)
        steps = tables.get("step", [])
        if not isinstance(steps, Sequence) or isinstance(steps, str) or len(steps) > PIPELINE_STEPS_MAX:
            raise BadPipeline(file, "step", f"expected at most {PIPELINE_STEPS_MAX} tables, each headed [[step]]")
        definition = cls(
            pipeline=_section(Head, file, "pipeline", tables.get("pipeline", {})),
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
        """The group that shows how far the pipeline came; empty for none."""
        return self.name if self.source.group is None else self.source.group

    @property
    def dead_letter(self) -> str | None:
        """The topic for messages that do not parse; None where such a message stops the pipeline."""
        return self.steps[0].dead_letter if self.steps else None

    @property
    def is_endless(self) -> bool:
        """Whether it runs until it is stopped."""
        return self.pipeline.trigger != "available-now"

    def triggered(self, trigger: str | None) -> Definition:
        """The same pipeline with another trigger; BadInput where that is none. None changes nothing."""
        if trigger is None:
            return self
        return dataclasses.replace(self, pipeline=dataclasses.replace(self.pipeline, trigger=keys.trigger(trigger)))

    def located(self, path: str) -> str:
        """A path of the file as the rest of the world sees it. What names a file system of its own stays as it is."""
        return path if "://" in path else os.path.normpath(os.path.join(self.directory, path))

    def _check(self) -> None:
        if not self.name:
            raise self.complaint("pipeline.name", "is missing: what is the pipeline called?")
        self._check_store()
        self._check_source()
        for number, step in enumerate(self.steps, 1):
            self._check_step(number, step)
        self._check_sink()

    def _check_store(self) -> None:
        head = self.pipeline
        if head.servers is not None and head.store is not None:
            raise self.complaint("pipeline.servers", "give either store or servers: where are the messages?")
        given = next((name for name in BROKER_KEYS if getattr(head, name)), None)
        if given is not None and head.servers is None:
            raise self.complaint(f"pipeline.{given}", "goes with servers: a directory has no such thing")

    def _check_source(self) -> None:
        source = self.source
        if bool(source.topics) == bool(source.topics_pattern):
            raise self.complaint("source", "give either topics or topics_pattern: which messages are read?")
        has_columns = source.format in ("json", "csv")
        if has_columns and source.schema is None:
            raise self.complaint("source.schema", f'format "{source.format}" needs it: which columns has a value?')
        if source.schema is not None and not has_columns:
            raise self.complaint("source.schema", 'only values of format "json" or "csv" have columns')
        if self.sink.topic in source.topics:
            raise self.complaint("sink.topic", f"{self.sink.topic!r} is also read: the pipeline would never end")

    def _check_step(self, number: int, step: Step) -> None:
        place = f"step {number}"
        actions = [name for name in ACTIONS if getattr(step, name) is not None]
        if len(actions) > 1 or not (actions or step.watermark):
            raise self.complaint(place, f"give exactly one of {', '.join(ACTIONS)}; watermark may stand beside it")
        if step.within is not None and step.dedupe is None:
            raise self.complaint(f"{place}.within", "goes with dedupe: how long is which row remembered?")
        if step.dedupe is not None and (step.within is None) == (step.watermark is None):
            raise self.complaint(f"{place}.dedupe", "give either within or watermark: how long is a row remembered?")
        if step.dead_letter is not None:
            self._check_dead_letter(place, number, step)

    def _check_dead_letter(self, place: str, number: int, step: Step) -> None:
        if number > 1 or step.watermark is not None:
            raise self.complaint(place, "dead_letter stands alone, in the first step: it takes messages as they came")
        if self.source.format == "binary":
            raise self.complaint(place, 'dead_letter: values of format "binary" always fit; set source.format')
        if step.dead_letter in (self.sink.topic, *self.source.topics):
            raise self.complaint(place, f"dead_letter: {step.dead_letter!r} is also read or written by this pipeline")

    def _check_sink(self) -> None:
        sink = self.sink
        targets = [name for name in TARGETS if getattr(sink, name)]
        if len(targets) != 1:
            raise self.complaint("sink", f"give exactly one of {', '.join(TARGETS)}: where do the rows go?")
        if targets != ["topic"]:
            given = next((name for name in TOPIC_KEYS if getattr(sink, name) is not None), None)
            if given is not None:
                raise self.complaint(f"sink.{given}", f"is for topics, and this sink is {targets[0]}")
        elif sink.format is None:
            raise self.complaint("sink.format", 'is missing: "json", "text" or "binary"')
        if sink.partition_by is not None and targets[0] not in ("parquet", "table"):
            raise self.complaint("sink.partition_by", f"is for parquet and table, and this sink is {targets[0]}")

    def complaint(self, key: str, reason: str) -> BadPipeline:
        """What is wrong with one key of this pipeline."""
        return BadPipeline(self.file, key, reason)


def _section(kind: type[Section], file: str, place: str, table: object) -> Section:
    """One section of the file, each key of it checked."""
    if not isinstance(table, Mapping):
        raise BadPipeline(file, place, f"expected a table of keys, not {table!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    _check_names(file, place, table, fields)
    values = {}
    for name, value in table.items():
        try:
            values[name] = fields[name].metadata["kind"](value)
        except BadInput as error:
            raise BadPipeline(file, f"{place}.{name}", str(error)) from error
    return kind(**values)


def _check_names(file: str, place: str, table: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in table:
        if name not in known:
            near = keys.nearest(name, known)
            remedy = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
            raise BadPipeline(file, f"{place}.{name}" if place else name, f"there is no such key; {remedy}")
