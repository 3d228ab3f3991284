"""The asyncio versions of stores, topics, groups and queues, for the tasks of one event loop."""

from warren.aio.batching import Batching
from warren.aio.durable_queue import DurableQueue
from warren.aio.local_queues import HandoverQueue, MemoryQueue, handover, memory
from warren.aio.log import Log
from warren.aio.producer import Producer
from warren.aio.store import Store, Transaction, connect, open
from warren.aio.topic import Broadcast, QueueGroup, StreamGroup, Topic

__all__ = [
    "Batching",
    "Broadcast",
    "DurableQueue",
    "HandoverQueue",
    "Log",
    "MemoryQueue",
    "Producer",
    "QueueGroup",
    "Store",
    "StreamGroup",
    "Topic",
    "Transaction",
    "connect",
    "handover",
    "memory",
    "open",
]
