"""Warren: a durable message log for Python."""

from warren.message import Message, Receipt

__all__ = ["Message", "Receipt"]
__version__ = "0.1.0"
