"""docs/protocol.md describes our own calls: every call, field and type, in their order, and nothing else."""

from __future__ import annotations

import re

import pytest

from tests.tidy.source import ROOT
from warren.errors import WarrenError
from warren.protocol.native.calls import error_kinds
from warren.protocol.native_schemas import NATIVE_MESSAGES, NativeKey
from warren.protocol.schemas import STRUCT, Field

DOCUMENT = (ROOT / "docs/protocol.md").read_text()
STRUCTURES, CALLS = DOCUMENT.split("## Structures")[1].split("## Calls")
ROW = re.compile(r"^\| `(\w+)` \| (\S+) \| ", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Returns the content under each heading."""
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[tuple[str, str]]:
    """The fields of a table with their types."""
    return [(name, kind) for name, kind in ROW.findall(text)]


STRUCTS = {name: rows(text) for name, text in sections(STRUCTURES).items()}


def described(field: Field) -> tuple[str, str]:
    """Returns a field as the document should show it; for a structure, the name under which the document lists its
    fields.
    """
    kind = field.kind
    if kind == STRUCT:
        inner = [described(each) for each in field.fields]
        kind = next((name for name, fields in STRUCTS.items() if fields == inner), "a structure that is not described")
    return field.name, f"{'[]' * field.is_array}{kind}{'?' * (0 in field.nullable)}"


@pytest.mark.parametrize("key", list(NativeKey))
def test_the_document_has_every_field_of_every_call(key: NativeKey) -> None:
    request_text, answered = re.split(r"^Answer", sections(CALLS)[f"{key.value} {key.title}"], flags=re.MULTILINE)

    error, *fields = NATIVE_MESSAGES[f"{key.title}Response"].fields

    assert rows(request_text) == [described(field) for field in NATIVE_MESSAGES[f"{key.title}Request"].fields]
    assert rows(answered) == [described(field) for field in fields]
    assert described(error) == ("error", "Error?")


def test_the_document_has_no_other_calls() -> None:
    assert list(sections(CALLS)) == [f"{key.value} {key.title}" for key in NativeKey]


def test_the_codes_that_the_document_names_are_codes() -> None:
    named = set(re.findall(r"`((?:no_such|fell|lease|producer|settings)_\w+)`", DOCUMENT))

    assert named <= set(error_kinds())
    assert WarrenError.code in error_kinds()
