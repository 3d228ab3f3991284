"""The cases that schemathesis skips: topics of a thousand partitions, each of which takes files and time."""

from __future__ import annotations

from typing import Any

import schemathesis

PARTITIONS_MAX = 3


@schemathesis.hook
def filter_case(context: schemathesis.HookContext, case: schemathesis.Case[Any]) -> bool:
    """Returns whether the case is tried."""
    body: Any = case.body
    count = body.get("partitions") if isinstance(body, dict) else None
    return not isinstance(count, int | float) or not PARTITIONS_MAX < count <= 1000
