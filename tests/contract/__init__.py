"""One suite for embedded, remote and asyncio stores."""
