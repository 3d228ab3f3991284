"""The classes of requests and responses match the schemas."""

from __future__ import annotations

import pytest

from tools.message_classes import modules


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_the_classes_of_messages_are_those_that_the_schemas_describe() -> None:
    for path, source in modules():
        assert path.read_text() == source, f"{path.name} is old: run `make messages`"
