"""Values become columns, or a reason why they cannot: decided by Spark's own expressions, row by row, in the JVM."""

from __future__ import annotations

from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # what every user of PySpark calls it
from pyspark.sql.types import StringType, StructField, StructType

from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.steps import sentence

TEXT: Final = "_warren_text"
PARSED: Final = "_warren_parsed"
REASON: Final = "_warren_reason"
LEFT_OVER: Final = "_warren_left_over"
"""The text of a value that does not fit the schema: what Spark fills in where parsing failed."""
MESSAGE_PREFIX: Final = "message_"
"""Before a message's own column whose name the schema of its value takes."""
ADVICE: Final = "; a step with dead_letter puts such messages aside"


def with_columns(frame: DataFrame, definition: Definition) -> DataFrame:
    """The messages with the columns of their values. A message that does not fit stops the query, and is named."""
    return _good(_judged(frame, definition, is_strict=not definition.dead_letter), definition)


def unfit(frame: DataFrame, definition: Definition) -> DataFrame:
    """The messages whose values do not fit, as they came, with why in the column REASON."""
    return _judged(frame, definition, is_strict=False).where(F.col(REASON).isNotNull()).drop(TEXT, PARSED)


def schema_of(definition: Definition) -> StructType:
    """The columns in a value. BadPipeline where Spark cannot read the schema."""
    try:
        found = StructType.fromDDL(definition.source.schema or "")
    except PySparkException as error:
        raise definition.complaint("source.schema", sentence(error)) from error
    assert isinstance(found, StructType), "a list of columns always is one"
    return found


def _judged(frame: DataFrame, definition: Definition, *, is_strict: bool) -> DataFrame:
    """The messages with their values parsed, and REASON: null for those that fit."""
    frame = frame.withColumn(TEXT, F.expr("try_validate_utf8(cast(value as string))"))
    if definition.source.format == "text":
        reason = F.when(F.col(TEXT).isNull(), F.lit("the value is not UTF-8"))
    else:
        schema = schema_of(definition)
        # A row of one value, exploded: Spark would otherwise parse again wherever the parsed value is looked at.
        frame = frame.select(
            "*", F.explode(F.array(_parsed(F.col(TEXT), schema, definition.source.format))).alias(PARSED)
        )
        reason = F.when(_is_unfit(schema), _reason(schema, definition.source.format))
    return frame.withColumn(REASON, F.when(reason.isNotNull(), _failure(reason)) if is_strict else reason)


def _good(frame: DataFrame, definition: Definition) -> DataFrame:
    # Spark evaluates the reason of every row for this filter, and so meets the failure of a strict one.
    fitting = frame.where(F.col(REASON).isNull())
    if definition.source.format == "text":
        return fitting.withColumn("value", F.col(TEXT)).drop(TEXT, REASON)
    names = schema_of(definition).names
    taken = {name.lower() for name in names}
    own = [name for name in frame.columns if name not in (TEXT, PARSED, REASON)]
    return fitting.select(
        *(F.col(name).alias(MESSAGE_PREFIX + name if name.lower() in taken else name) for name in own),
        *(F.col(PARSED)[name].alias(name) for name in names),
    )


def _parsed(text: Column, schema: StructType, format: str) -> Column:
    nullable = StructType([StructField(field.name, field.dataType) for field in schema])
    whole = nullable.add(LEFT_OVER, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": LEFT_OVER}
    if format == "json":
        return F.from_json(text, whole, options)
    return F.from_csv(text, whole.toDDL(), options)


def _is_unfit(schema: StructType) -> Column:
    found = F.col(TEXT).isNull() | (F.trim(F.col(TEXT)) == "") | F.col(PARSED)[LEFT_OVER].isNotNull()
    for field in schema:
        if not field.nullable:
            found |= F.col(PARSED)[field.name].isNull()
    return found


def _reason(schema: StructType, format: str) -> Column:
    """Why a value does not fit; in words that are the same for all values with the same fault."""
    text = F.col(TEXT)
    reason = F.when(F.col("value").isNull(), F.lit("there is no value")).when(text.isNull(), "the value is not UTF-8")
    reason = reason.when(F.trim(text) == "", F.lit("the value is empty"))
    if format == "json":
        tree = F.expr(f"try_parse_json({TEXT})")
        reason = reason.when(tree.isNull(), F.lit("the value is not JSON"))
        reason = reason.when(~F.startswith(F.ltrim(text), F.lit("{")), F.lit("the value is not a JSON object"))
        alone = [(field, _parsed(text, StructType([field]), format)[LEFT_OVER].isNotNull()) for field in schema]
        faults = [F.when(failed, f"{field.name} is not {field.dataType.simpleString()}") for field, failed in alone]
        missing = [
            F.when(F.col(PARSED)[field.name].isNull() & ~failed, f"{field.name} is missing")
            for field, failed in alone
            if not field.nullable
        ]
        told = F.concat_ws(", ", *faults, *missing)
        return reason.when(told != "", told).otherwise(F.lit("the value does not fit the schema"))
    return reason.otherwise(F.lit(f"the value does not fit the columns {', '.join(schema.names)}"))


def _failure(reason: Column) -> Column:
    """Stops the query with a sentence that names the message."""
    place = [
        F.lit("message "),
        F.col("offset").cast("string"),
        F.lit(" of partition "),
        F.col("partition").cast("string"),
    ]
    sentence = F.concat(*place, F.lit(" of topic "), F.col("topic"), F.lit(": "), reason, F.lit(ADVICE))
    return F.raise_error(sentence).cast("string")
