"""ApiVersions: the first question of every client, answered in words that the oldest of them understands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code
from warren.protocol.api import APIS, ApiKey
from warren.protocol.codec import Buffer
from warren.protocol.kafka_codec import Values, decode_request, encode_response

SOFTWARE_FROM: Final = 3


def api_versions(call: Call) -> Sequence[Buffer]:
    """Which API keys are served, in which versions. A question that is too new is answered in version 0."""
    api, request = APIS[ApiKey.API_VERSIONS], call.request
    if not api.first <= request.version <= api.last:
        return encode_response(ApiKey.API_VERSIONS, 0, _served(call, Code.UNSUPPORTED_VERSION))
    asked = decode_request(ApiKey.API_VERSIONS, request.version, request.body)
    if request.version >= SOFTWARE_FROM:
        call.peer.software = f"{asked.client_software_name} {asked.client_software_version}"
    return encode_response(ApiKey.API_VERSIONS, request.version, _served(call, Code.NONE))


def _served(call: Call, error: Code) -> Values:
    keys = [
        {"api_key": api.key, "min_version": api.advertised_from, "max_version": api.last}
        for api in sorted(APIS.values())
        if call.broker.serves(api.key)
    ]
    return {"error_code": error, "api_keys": keys}
