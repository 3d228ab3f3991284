"""What the producer of a batch is told where it was not taken."""

from __future__ import annotations

import errno
import logging
import os
from typing import Final

from warren.broker.kafka_errors import Code, code_of
from warren.broker.security.asker import Asker
from warren.errors import WarrenError
from warren.protocol.produce import PartitionStored

LOGGER: Final = logging.getLogger("warren.broker")
FAILURES: Final = (WarrenError, OSError)
"""What a put may end with: also an error of the system, such as no descriptor that is left."""


def refusal(asker: Asker, partition: int, error: BaseException) -> PartitionStored:
    """What to answer if a put ended with `error`; any other error than one of FAILURES is raised."""
    if isinstance(error, WarrenError):
        return refused(partition, code_of(error), asker.told(error))
    if isinstance(error, OSError):
        LOGGER.warning("a put failed: %s", error)
        # Its text names files of the machine, which are not for clients.
        return refused(partition, code_of(error), os.strerror(error.errno or errno.EIO))
    raise error


def refused(partition: int, code: Code, message: str | None = None) -> PartitionStored:
    """What to answer where it ends with this code."""
    return PartitionStored(partition, code, error_message=message)
