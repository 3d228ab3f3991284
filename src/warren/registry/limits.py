"""The limits of the registry. Sizes are in bytes, waits in seconds."""

from __future__ import annotations

from typing import Final

WRITE_SIZE_MAX: Final = 0xFFFFF - 4096
"""All changes of one write. ZooKeeper closes the connection of a client that sends more than its jute.maxbuffer."""
CHANGE_SIZE: Final = 256
"""What one change takes in a request beside its path and data: its kind, its version, and its ACL."""
CHANGES_MAX: Final = 1000
"""The changes of one write."""
PATH_SIZE_MAX: Final = 1024
WATCHES_MAX: Final = 100_000
"""The watches of one registry."""
CALLS_MAX: Final = 64
"""The calls of one registry that wait for a connection or an answer. One more is refused, and never queued."""

CALL_S_DEFAULT: Final = 5.0
"""After how long a call without an answer ends, if the caller does not say."""
CALL_S_MAX: Final = 600.0
SESSION_S_DEFAULT: Final = 6.0
SESSION_S_MIN: Final = 1.0
"""kazoo may hang while it reconnects if sessions are very short."""
SESSION_S_MAX: Final = 60.0
CLOSE_S_MAX: Final = 3.0
"""How long `close` waits for ZooKeeper to end the session."""
HEARTBEATS_PER_SESSION: Final = 4
"""How often in a session timeout the registry asks ZooKeeper for a sign of life."""
RECONNECT_S_MIN: Final = 0.05
RECONNECT_S_MAX: Final = 1.0
"""The first and the longest pause between two rounds of connection attempts."""

SECRET_SIZE_MIN: Final = 8
SECRET_SIZE_MAX: Final = 1024
SERVERS_MAX: Final = 15
"""The servers of one ensemble, and the addresses that a client is given."""
SERVER_ID_MAX: Final = 255
STATUS_S_DEFAULT: Final = 3.0
"""How long a server may take to show its status."""
STATUS_SIZE_MAX: Final = 64 * 1024
"""The largest answer to a question for the status that is read."""
