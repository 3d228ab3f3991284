"""Warren: a durable message log for Python."""

from queue import Empty, Full

from warren import aio
from warren.message import Message, Place, Receipt, TopicReceipt
from warren.queue.file_queue import open_file
from warren.queue.handover import handover
from warren.queue.memory import memory
from warren.queue.topic import Topic
from warren.transaction.store import Store, open

__all__ = [
    "Empty",
    "Full",
    "Message",
    "Place",
    "Receipt",
    "Store",
    "Topic",
    "TopicReceipt",
    "aio",
    "handover",
    "memory",
    "open",
    "open_file",
]
__version__ = "0.1.0"
