"""The base class of all requests and responses, and of the structs in them, whose classes are made from the schemas.

`make messages` writes these classes (`tools/message_classes.py`): those of Kafka's messages into `kafka_messages.py`,
those of our own into `native_messages.py`. To use one, import its class:

    request = read_request(TakeRequest, version, body)   # a TakeRequest: mypy knows `request.limit`
    buffers = message_buffers(TakeResponse(messages=columns), version)

A client does the same with `message_buffers(TakeRequest(limit=1), version)` and `read_response(TakeResponse, …)`.
A request knows its API key and the class of its response, so that `calls.call(TakeRequest(limit=1))` is a TakeResponse.
A field that is left out has its default. `SHARED_STRUCTS` in `kafka_schemas.py` and `native_schemas.py` names the class
of a struct that several messages have.

After a change to a schema run `make messages`; a test fails as long as the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

NO_SLOTS: Final = ()
"""The slots of a base class whose subclasses have slots. Mypy would take a literal for all slots that there are."""


class WireStruct:
    """The fields of a message, or of a struct in it, as attributes. A field that its version lacks has its default."""

    __slots__: tuple[str, ...] = ()
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {}
    """The classes of the fields that are structs, or arrays of structs."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        """Subclasses with fields list them, each with its type and its default."""
        if values or fields:
            raise TypeError(f"{type(self).__name__} has no fields")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields_of(self).items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WireStruct) and type(self) is type(other) and fields_of(self) == fields_of(other)


def fields_of(struct: WireStruct) -> dict[str, Any]:
    """Returns the values of all fields by name, in the order of the schema."""
    return {name: getattr(struct, name) for name in struct.__slots__}


class NativeResponse(WireStruct):
    """A response of Warren's own protocol. `error` is a WireError if the broker refuses the request, else None."""

    __slots__ = NO_SLOTS
    error: WireStruct | None


R = TypeVar("R", bound=WireStruct)


class WireRequest(WireStruct, Generic[R]):
    """A request that the broker answers with an R."""

    __slots__ = NO_SLOTS
    api_key: int
    response: type[R]


class NumberedRequest(WireRequest[R]):
    """A request that a session may number, so that the broker executes it once even if it is sent again.

    `call_number` is 0 if it has no number. The client has the answers to all numbers before `answered_below`.
    """

    __slots__ = NO_SLOTS
    call_number: int
    answered_below: int


class WaitingRequest(WireRequest[R]):
    """A request that may wait at the broker for `wait_ms`."""

    __slots__ = NO_SLOTS
    wait_ms: int


AnyRequest = TypeVar("AnyRequest", bound=WireRequest[Any])


def replaced(request: AnyRequest, **fields: Any) -> AnyRequest:
    """Returns a copy of a request in which these fields have other values."""
    return type(request)(**(fields_of(request) | fields))
