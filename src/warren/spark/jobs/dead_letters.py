"""Dead letters on Spark: summarised by reason, and put back by condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from warren import api
from warren.errors import BadInput, NoSuchGroup, NoSuchTopic
from warren.queue.leases.dead_letters import HEADER_PREFIX, dead_letter_topic
from warren.spark.jobs.rewrite import narrowed
from warren.spark.runtime.tasks import failures_explained
from warren.spark.store_access.options import Named, named_options, opened

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


ORIGIN_TYPES: Final = {"topic": "string", "partition": "int", "number": "long", "group": "string", "attempts": "int"}
"""The headers of a letter other than the reason: where it came from, and the group that gave up on it."""
REASON_SHOWN_MAX: Final = 200
"""Reasons that are equal in this many characters count as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The letters of one topic and group that have the same reason. Times are µs since the epoch."""

    topic: str
    group: str | None
    reason: str
    letters: int
    attempts_max: int | None
    first_us: int
    last_us: int

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def letters(
    spark: SparkSession, store: Named, topics: Sequence[str] | None = None, dead_topics: Sequence[str] | None = None
) -> DataFrame:
    """Returns the dead letters of the topics, or of all topics, that were not put back.

    Reads the dead-letter topics of the topics' settings, or else `dead_topics`, in which a pipeline may have put some.
    Raises NoSuchTopic if none of them exists, because no message has died yet.

    Columns: `topic, partition, number`, the old place of the message; `group`, `attempts`, `reason`, `died`; the
    content, `key, value, tag, id, headers`; and `dead_topic, dead_partition, dead_number`, the place of the letter.
    """
    from pyspark.sql import functions as f

    with opened(store) as at:
        names = at.topics() if topics is None else list(topics)
        sources = [at.existing_topic(name) for name in names]
        existing = [name for name in map(_dead_name, sources) if at.has_topic(name)]
        read = sorted(set(existing if dead_topics is None else dead_topics))
        if not read:
            raise NoSuchTopic(_dead_name(sources[0]) if topics and sources else "<topic>.dead")
        put_backs = [condition for topic in sources for condition in _put_back_conditions(topic)]
    reader = spark.read.format("warren").options(**named_options(store), topics=",".join(read))
    with failures_explained():
        frame = reader.option("includeHeaders", "true").load()
    origin = [_header(f.col("headers"), name).cast(kind).alias(f"from_{name}") for name, kind in ORIGIN_TYPES.items()]
    reason = f.coalesce(_header(f.col("headers"), "reason"), f.lit("no reason given")).alias("reason")
    rows = frame.select("*", reason, *origin).select(
        f.coalesce("from_topic", f.lit("")).alias("topic"),
        f.col("from_partition").alias("partition"),
        f.col("from_number").alias("number"),
        f.col("from_group").alias("group"),
        f.col("from_attempts").alias("attempts"),
        "reason",
        f.col("timestamp").alias("died"),
        "key",
        "value",
        "tag",
        "id",
        "headers",
        f.col("topic").alias("dead_topic"),
        f.col("partition").alias("dead_partition"),
        f.col("offset").alias("dead_number"),
    )
    # A message that a user put into the dead-letter topic has no such headers.
    rows = rows.where(f.col("topic").isin([*names, ""] if topics is None else names))
    return rows.where(~f.expr(" or ".join(put_backs))) if put_backs else rows


def _dead_name(topic: api.Topic) -> str:
    return dead_letter_topic(str(topic.name), topic.settings.dead_letter)


def _header(headers: Column, name: str) -> Column:
    from pyspark.sql import functions as f

    matching = f.filter(headers, lambda header: header["key"] == HEADER_PREFIX + name)
    return f.try_element_at(matching, f.lit(1))["value"].cast("string")


def _put_back_conditions(topic: api.Topic) -> Iterator[str]:
    """Yields SQL conditions that are true for letters that were put back."""
    for group in topic.groups():
        for part in topic.put_back(group):
            partition, start, numbers = part.partition, part.start, part.numbers
            conditions = [f"dead_number < {start}"] if start else []
            conditions += [f"dead_number in ({', '.join(map(str, numbers))})"] if numbers else []
            if conditions:
                place = f"dead_topic = '{_dead_name(topic)}' and dead_partition = {partition}"
                yield f"({place} and coalesce(`group` = '{group}', false) and ({' or '.join(conditions)}))"


def summary(
    spark: SparkSession,
    store: Named,
    topics: Sequence[str] | None = None,
    dead_topics: Sequence[str] | None = None,
    *,
    where: str | None = None,
) -> list[Reason]:
    """Counts the letters by topic, group and reason, the most frequent first."""
    from pyspark.sql import functions as f

    try:
        frame = narrowed(letters(spark, store, topics, dead_topics), where)
    except NoSuchTopic:
        return []
    grouped = frame.groupBy("topic", "group", f.substring("reason", 1, REASON_SHOWN_MAX).alias("reason"))
    counted = grouped.agg(
        f.count(f.lit(1)).alias("letters"),
        f.max("attempts").alias("attempts_max"),
        f.unix_micros(f.min("died")).alias("first_us"),
        f.unix_micros(f.max("died")).alias("last_us"),
    )
    with failures_explained():
        rows = counted.orderBy(f.desc("letters"), "topic", "group", "reason").collect()
    return [Reason(**row.asDict()) for row in rows]


def redrive(spark: SparkSession, store: Named, topic: str, where: str, group: str | None = None) -> dict[str, int]:
    """Puts back the letters of a topic for which an SQL condition is true, each once. Returns the number by group.

    The condition may use the columns of `letters`, and `text`. Spark selects the letters, and the groups put them back.
    """
    from pyspark.sql import functions as f

    with suppress(NoSuchTopic):
        frame = narrowed(letters(spark, store, [topic]), where).where(f.col("group").isNotNull())
        if group is not None:
            frame = frame.where(f.col("group") == group)
        with failures_explained():
            rows = frame.select("group", "dead_partition", "dead_number").collect()
        chosen: dict[str, dict[int, list[int]]] = {}
        for row in rows:
            chosen.setdefault(row.group, {}).setdefault(row.dead_partition, []).append(row.dead_number)
        with opened(store) as at:
            source = at.existing_topic(topic)
            return {name: _put_back(source, name, numbers) for name, numbers in sorted(chosen.items())}
    return {}


def _put_back(topic: api.Topic, group: str, numbers: dict[int, list[int]]) -> int:
    try:
        is_queue = topic.group_settings(group).mode == "queue"
    except NoSuchGroup:
        is_queue = False
    if not is_queue:
        raise BadInput(
            f"topic {str(topic.name)!r} has no queue group {group!r} that could put its letters back: "
            f"`warren replay {_dead_name(topic)} --into {topic.name} --revive --name …` puts back those of a pipeline"
        )
    with topic.group(group, mode="queue") as member:
        return member.redrive(numbers=numbers)
