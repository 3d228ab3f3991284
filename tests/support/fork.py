"""Work in a forked child process, with its result in the parent."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any


def in_child(work: Callable[[], object]) -> Any:
    """Returns what `work` returns in a forked child, or the class name and the message of the error that it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            result: object = work()
        except BaseException as error:  # noqa: BLE001  # the parent reports it
            result = type(error).__name__, str(error)
        os.write(writing, pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data)
