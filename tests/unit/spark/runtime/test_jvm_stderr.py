"""The stderr of Spark reaches people, except for the tracebacks without a meaning."""

from __future__ import annotations

import pytest

from warren.spark.runtime.jvm_stderr import without_broken_pipes

NOISE = [
    b"Traceback (most recent call last):\n",
    b'  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager\n',
    b"    code = worker(sock, authenticated)\n",
    b'  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker\n',
    b"BrokenPipeError: [Errno 32] Broken pipe\n",
]
OF_A_TASK = [
    b"Traceback (most recent call last):\n",
    b'  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager\n',
    b'  File "/home/me/job.py", line 3, in send\n',
    b"BrokenPipeError: [Errno 32] Broken pipe\n",
]
OTHER_ERROR = [*NOISE[:-1], b"ValueError: no\n"]


@pytest.mark.parametrize(
    ("lines", "passed"),
    [
        (NOISE, []),
        ([b"one\n", *NOISE, b"two\n"], [b"one\n", b"two\n"]),
        ([*NOISE, *NOISE], []),
        (OF_A_TASK, OF_A_TASK),
        (OTHER_ERROR, OTHER_ERROR),
        ([*NOISE[:3]], NOISE[:3]),
        ([NOISE[0], *NOISE], [NOISE[0]]),
        ([b"BrokenPipeError: alone\n"], [b"BrokenPipeError: alone\n"]),
        ([NOISE[0], *[b"  deep\n"] * 200], [NOISE[0], *[b"  deep\n"] * 200]),
    ],
)
def test_only_broken_pipes_of_the_daemon_are_left_out(lines: list[bytes], passed: list[bytes]) -> None:
    assert list(without_broken_pipes(lines)) == passed
