"""What the producer of a batch is told where it was not taken."""

from __future__ import annotations

from warren.broker.kafka_errors import Code, code_of
from warren.errors import WarrenError
from warren.protocol.produce import PartitionStored


def refusal(partition: int, error: BaseException) -> PartitionStored:
    """What to answer where a put ended with `error`; what is no error of ours is raised."""
    if isinstance(error, WarrenError):
        return refused(partition, code_of(error), str(error))
    raise error


def refused(partition: int, code: Code, message: str | None = None) -> PartitionStored:
    """What to answer where it ends with this code."""
    return PartitionStored(partition, code, error_message=message)
