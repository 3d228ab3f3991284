"""The asyncio twins: the same queues for the tasks of one event loop."""

from warren.aio.handover_queue import HandoverQueue, handover
from warren.aio.memory_queue import MemoryQueue, memory

__all__ = ["HandoverQueue", "MemoryQueue", "handover", "memory"]
