from __future__ import annotations

import pytest

from warren.spark.pipelines.failure import REASON_CHARACTERS_MAX, failed, is_passing, reason_of

OURS = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] failed
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise NoSuchTopic(name)
warren.errors.NoSuchTopic: there is no topic 'orders'
During handling of the above exception, another exception occurred:
RuntimeError: worker failed
 SQLSTATE: 38000 SQLSTATE: XXKST"""
RAISED = "[STREAM_FAILED] Query: [USER_RAISED_EXCEPTION] message 1 of partition 0: the value is empty SQLSTATE: P0001 X"
STEP = """[STREAM_FAILED] An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "steps.py", line 3, in double
ZeroDivisionError: division by zero
"""
SPARK = (
    "[STREAM_FAILED] Query terminated: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012 == SQL =="
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OURS, "there is no topic 'orders'"),
        (RAISED, "message 1 of partition 0: the value is empty"),
        (STEP, "ZeroDivisionError: division by zero"),
        (SPARK, "Division by zero. Use `try_divide`"),
        ("the JVM went away\nat once", "the JVM went away"),
    ],
)
def test_the_innermost_cause_is_found(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def test_a_failure_names_the_next_step() -> None:
    error = failed("revenue", RAISED)

    assert str(error).startswith("pipeline 'revenue' stopped: message 1 of partition 0: the value is empty; ")
    assert "the next run continues after them" in error.remedy


def test_a_reason_has_an_end() -> None:
    assert len(failed("p", "x" * 10_000).reason) == REASON_CHARACTERS_MAX


def test_transient_failures_of_spark_are_distinguished_from_user_errors() -> None:
    chance = "[STREAM_FAILED] Query terminated: org.apache.spark.SparkException: Task not serializable"

    assert is_passing(chance)
    assert not any(is_passing(text) for text in (OURS, RAISED, STEP, SPARK, f"{chance}\n{OURS}"))
