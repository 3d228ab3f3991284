"""The answers of Produce for one partition: where its records are, or why they were refused."""

from __future__ import annotations

import errno
import logging
import os
from typing import Final

from warren.broker.kafka.errors import Code, code_of
from warren.broker.security.asker import Asker
from warren.errors import WarrenError
from warren.protocol.kafka.produce import PartitionStored
from warren.storage import Log

LOGGER: Final = logging.getLogger("warren.broker")


def stored_at(partition: int, error: Code, number: int, log: Log) -> PartitionStored:
    """Returns the answer for records that are stored from `number` on, or that `error` refuses."""
    return refused(partition, error) if error else PartitionStored(partition, 0, number, -1, log.first)


def refusal_of(asker: Asker, partition: int, error: BaseException) -> PartitionStored:
    """Returns the answer for a put that ended with `error`. Raises `error` if it is not one of FAILURES."""
    if isinstance(error, WarrenError):
        return refused(partition, code_of(error), asker.client_message(error))
    if isinstance(error, OSError):
        LOGGER.warning("a put failed: %s", error)
        # The text of the error names files of this machine, which clients must not see.
        return refused(partition, code_of(error), os.strerror(error.errno or errno.EIO))
    raise error


def refused(partition: int, code: Code, message: str | None = None) -> PartitionStored:
    """Returns the answer that refuses records."""
    return PartitionStored(partition, code, error_message=message)
