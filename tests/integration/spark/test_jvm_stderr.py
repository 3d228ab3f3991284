"""The filter of the JVM's stderr applies to processes that start within it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warren.spark.runtime.jvm_stderr import without_worker_noise

NOISE = [
    b"Traceback (most recent call last):\n",
    b'  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager\n',
    b"    code = worker(sock, authenticated)\n",
    b'  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker\n',
    b"BrokenPipeError: [Errno 32] Broken pipe\n",
]


def test_the_stderr_of_a_child_is_filtered_and_that_of_the_parent_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    noise = b"".join(NOISE)
    code = f"import sys; sys.stderr.buffer.write({noise!r} + b'heard\\n')"

    with without_worker_noise():
        started = subprocess.Popen([sys.executable, "-c", code])
    started.wait(30)
    print("ours", file=sys.stderr)  # noqa: T201  # what a program does

    output = ""
    for _ in range(300):
        output += capfd.readouterr().err
        if "heard" in output:
            break
        subprocess.run(["sleep", "0.01"], check=True)
    assert sorted(output.splitlines()) == ["heard", "ours"]
