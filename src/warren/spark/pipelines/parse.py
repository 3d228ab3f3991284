"""Parses values into columns, or into a reason why they do not fit, with Spark's own expressions in the JVM."""

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
"""The text of a value that does not fit the schema. Spark fills this column if parsing fails."""
MESSAGE_PREFIX: Final = "message_"
"""The prefix for a column of the message if a column of its value has the same name."""
ADVICE: Final = "; a step with dead_letter sets such messages aside"


def with_columns(frame: DataFrame, definition: Definition) -> DataFrame:
    """Returns the messages with the columns of their values.

    Without a dead-letter topic, a message that does not fit stops the query with an error that names it.
    """
    return _good(_judged(frame, definition, is_strict=not definition.dead_letter), definition)


def unfit(frame: DataFrame, definition: Definition) -> DataFrame:
    """Returns the messages whose values do not fit, unchanged, with the reason in the column REASON."""
    return _judged(frame, definition, is_strict=False).where(F.col(REASON).isNotNull()).drop(TEXT, PARSED)


def schema_of(definition: Definition) -> StructType:
    """Returns the columns of a value. Raises BadPipeline if Spark cannot parse the schema."""
    try:
        schema = StructType.fromDDL(definition.source.schema or "")
    except PySparkException as error:
        raise definition.complaint("source.schema", sentence(error)) from error
    assert isinstance(schema, StructType), "Spark parses a list of columns as this"
    return schema


def _judged(frame: DataFrame, definition: Definition, *, is_strict: bool) -> DataFrame:
    """Returns the messages with their values parsed, and REASON, which is null for those that fit."""
    frame = frame.withColumn(TEXT, F.expr("try_validate_utf8(cast(value as string))"))
    if definition.source.format == "text":
        reason = F.when(F.col(TEXT).isNull(), F.lit("the value is not UTF-8"))
    else:
        schema = schema_of(definition)
        # Explodes an array of one value, because Spark would otherwise parse again for each use of the parsed value.
        frame = frame.select(
            "*", F.explode(F.array(_parsed(F.col(TEXT), schema, definition.source.format))).alias(PARSED)
        )
        reason = F.when(_is_unfit(schema), _reason(schema, definition.source.format))
    return frame.withColumn(REASON, F.when(reason.isNotNull(), _failure(reason)) if is_strict else reason)


def _good(frame: DataFrame, definition: Definition) -> DataFrame:
    # This filter makes Spark evaluate the reason of every row, and thus raise the error of a strict query.
    fitting = frame.where(F.col(REASON).isNull())
    if definition.source.format == "text":
        return fitting.withColumn("value", F.col(TEXT)).drop(TEXT, REASON)
    names = schema_of(definition).names
    names_used = {name.lower() for name in names}
    own = [name for name in frame.columns if name not in (TEXT, PARSED, REASON)]
    return fitting.select(
        *(F.col(name).alias(MESSAGE_PREFIX + name if name.lower() in names_used else name) for name in own),
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
    is_unfit = F.col(TEXT).isNull() | (F.trim(F.col(TEXT)) == "") | F.col(PARSED)[LEFT_OVER].isNotNull()
    for field in schema:
        if not field.nullable:
            is_unfit |= F.col(PARSED)[field.name].isNull()
    return is_unfit


def _reason(schema: StructType, format: str) -> Column:
    """Returns why a value does not fit. Values with the same fault get the same text."""
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
        faults_text = F.concat_ws(", ", *faults, *missing)
        return reason.when(faults_text != "", faults_text).otherwise(F.lit("the value does not fit the schema"))
    return reason.otherwise(F.lit(f"the value does not fit the columns {', '.join(schema.names)}"))


def _failure(reason: Column) -> Column:
    """Returns an expression that stops the query with an error that names the message."""
    place = [
        F.lit("message "),
        F.col("offset").cast("string"),
        F.lit(" of partition "),
        F.col("partition").cast("string"),
    ]
    sentence = F.concat(*place, F.lit(" of topic "), F.col("topic"), F.lit(": "), reason, F.lit(ADVICE))
    return F.raise_error(sentence).cast("string")
