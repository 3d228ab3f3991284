"""Warren: a durable message log for Python."""

from queue import Empty, Full

from warren import aio
from warren.message import Message, Receipt
from warren.queue.file_queue import open_file
from warren.queue.handover import handover
from warren.queue.memory import memory

__all__ = ["Empty", "Full", "Message", "Receipt", "aio", "handover", "memory", "open_file"]
__version__ = "0.1.0"
