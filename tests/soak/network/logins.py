"""The users of the long run: the working clients, which may do everything, and a malicious one."""

from __future__ import annotations

from typing import Any, Final

from tests.fuzz.attacks import Login
from tests.fuzz.valid import TOPICS

SOAK: Final = Login("soak", "a secret, of the soak")
MALLORY: Final = Login("mallory", "a secret, of mallory")
MECHANISM: Final = "SCRAM-SHA-256"
SETTINGS: Final = {
    "WARREN_SECURITY_SASL": "true",
    "WARREN_SECURITY_RIGHTS": "true",
    "WARREN_SECURITY_SUPER_USERS": SOAK.user,
    "WARREN_BROKER_DELIVER_AT": "all",
}
"""Settings of the broker. Mallory has every right to the topics and groups of the attacks, and none to others."""
PREFIX: Final = TOPICS[0].partition("-")[0]
OF_CONFLUENT: Final[dict[str, Any]] = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": MECHANISM,
    "sasl.username": SOAK.user,
    "sasl.password": SOAK.password,
}
OF_PYTHON: Final[dict[str, Any]] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": MECHANISM,
    "sasl_plain_username": SOAK.user,
    "sasl_plain_password": SOAK.password,
}
"""For kafka-python and for aiokafka, which use the same names."""
OF_WARREN: Final[dict[str, Any]] = {"user": SOAK.user, "password": SOAK.password}
