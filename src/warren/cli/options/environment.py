"""The environment variables that name a store and a login, and the directory of a store that nothing names."""

from __future__ import annotations

from typing import Final

STORE_DEFAULT: Final = "data"
STORE_VARIABLE: Final = "WARREN_STORE"
SERVER_VARIABLE: Final = "WARREN_SERVER"
USER_VARIABLE: Final = "WARREN_USER"
PASSWORD_VARIABLE: Final = "WARREN_PASSWORD"
