"""A broker in its own process, which kills itself at a step that the test names: `python -m … <data> <where>`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support.broker.running import running_broker
from warren.broker.net.connection import Connection
from warren.protocol.api_keys import ApiKey
from warren.transaction.completion import Completion

ANSWERED = "before it answers a produce"
CARRIED_OUT = "when a commit is decided and nothing of it is done"
NOWHERE = "nowhere"


def die(*arguments: Any, **named: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def reply(connection: Connection, request: Any, *arguments: Any) -> None:
    if request.api_key == ApiKey.PRODUCE:
        die()
    REPLY(connection, request, *arguments)


REPLY = Connection._reply

if __name__ == "__main__":
    data, where = sys.argv[1:]
    if where == ANSWERED:
        Connection._reply = reply  # type: ignore[method-assign, assignment]
    elif where == CARRIED_OUT:
        Completion.carry_out = die  # type: ignore[method-assign]
    with running_broker(Path(data), durability="commit") as broker:
        sys.stdout.write(f"{broker.address}\n")
        sys.stdout.flush()
        sys.stdin.read()
