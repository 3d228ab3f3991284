"""What a broker is told by its file, the environment and its flags: every key, what it may be, and who wins."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.broker.limits import Limits
from warren.broker.quotas.entities import CREATIONS, DEFAULT, Entity, checked_value
from warren.broker.quotas.entities import KEYS as QUOTA_KEYS
from warren.broker.settings import BrokerSettings, ShownKey
from warren.config import BROKER_PORT_DEFAULT, CONFIGURATION_SIZE_MAX, TRANSACTIONAL_ID_S
from warren.errors import BadConfiguration, BadInput
from warren.queue.settings import TopicSettings

VARIABLE_PREFIX: Final = "WARREN_"
FILE_DEFAULT: Final = "warren.toml"
DELIVER_AT: Final = ("all", "plain", "none")
LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

Kind = Callable[[Any], Any]
"""Makes a value of what a file says, or of text; BadInput where that cannot be."""


class Key(NamedTuple):
    """One thing that can be told. `default` is None where nothing is the default."""

    kind: Kind
    default: Any
    what: str


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"expected text, not {value!r}")
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise BadInput(f"expected true or false, not {value!r}")
    return value


def _words(value: Any) -> tuple[str, ...]:
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(word, str) for word in found):
        raise BadInput(f"expected a list of text, not {value!r}")
    return tuple(word.strip() for word in found if word.strip())


def _whole(least: int, most: int) -> Kind:
    def whole(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise BadInput(f"expected a whole number from {least} to {most}, not {value!r}")
        return number

    return whole


def _seconds(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number <= 86_400:
        raise BadInput(f"expected seconds above 0 and up to 86400, not {value!r}")
    return number


def _one_of(*words: str) -> Kind:
    def choose(value: Any) -> str:
        if value not in words:
            raise BadInput(f"expected {' or '.join(words)}, not {value!r}")
        return str(value)

    return choose


def _some_of(*words: str) -> Kind:
    def choose(value: Any) -> tuple[str, ...]:
        found = _words(value)
        if not found or not set(found) <= set(words):
            raise BadInput(f"expected some of {', '.join(words)}, not {value!r}")
        return found

    return choose


def _setting(name: str, kind: Kind) -> Kind:
    """A setting of topics, which says itself what it may be."""

    def check(value: Any) -> Any:
        found = kind(value)
        TopicSettings(**{name: found})
        return found

    return check


def _addresses(value: Any) -> tuple[str, ...]:
    found = _words(value)
    _ = Limits(connections_max_of_address=found).of_address
    return found


def _limit_kind(name: str) -> Kind:
    if name == "connections_max_of_address":
        return _addresses
    return _seconds if "_s_" in name else _whole(1, 1 << 40)


def _quota(name: str) -> Kind:
    """A quota, which is checked as one that is set while the broker runs."""
    entity = Entity(address=DEFAULT) if name == CREATIONS else Entity(user=DEFAULT)

    def check(value: Any) -> float:
        try:
            number = float(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        return checked_value(entity, name, number)

    return check


def _quota_words(name: str) -> str:
    return f"{QUOTA_KEYS[name].what}; no limit, if nothing is said"


_LIMIT_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "connections_max": "connections at a time; if there are more, the oldest one that has not logged in, or has "
        "sent nothing, makes room",
        "connections_max_per_address": "connections from one other machine; more are refused",
        "connections_max_of_address": "the same for single addresses, of HTTP too: `address=count`",
        "http_connections_max_per_address": "connections over HTTP from one other machine; more are answered for their "
        "health only",
        "frame_size_max": "bytes of one request",
        "memory_size_max": "bytes that clients may make the broker hold in memory, all together; see [Memory](#memory)",
        "waiting_size_max": "bytes of requests of one connection that wait for an answer",
        "unsent_size_max": "bytes of answers that a client has not read, before it is made to wait",
        "stalled_s_max": "seconds until a request that does not come on, or an unread answer, ends its connection",
        "fetch_size_max": "bytes that a fetch answers with",
        "fetch_wait_s_max": "seconds that a fetch waits for messages",
        "topics_max": "topics of the store; a client that would make more is refused",
        "partitions_max": "partitions of all topics; a client that would make more is refused",
        "stop_s_max": "seconds that a stop may take to answer what was accepted",
    }
)
_LIMIT_DEFAULTS: Final = Limits()
_TOPIC_KINDS: Final[Mapping[str, tuple[Kind, str]]] = MappingProxyType(
    {
        "partitions": (_whole(1, 1 << 31), "how many partitions"),
        "durability": (_text, "when a put is done: `commit`, `os`, or e.g. `interval:50ms`"),
        "block_size": (_whole(0, 1 << 62), "bytes of a block"),
        "compression": (_text, "`none`, `zstd` or `lz4`"),
        "message_size_max": (
            _whole(0, 1 << 62),
            "bytes of the largest body, also of one that a Kafka client compressed, or of its batch as it is sent",
        ),
        "retention_age_s": (float, "seconds that messages are kept; for ever, if nothing is said"),
        "retention_bytes": (_whole(0, 1 << 62), "bytes that are kept of a partition; all, if nothing is said"),
        "retention_consumed": (_truth, "whether what every group has consumed is removed"),
    }
)

KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "broker.host": Key(_text, "127.0.0.1", "the address to listen on"),
        "broker.port": Key(_whole(0, 65_535), BROKER_PORT_DEFAULT, "the port; 0 takes any that is free"),
        "broker.advertise": Key(
            _text, "", "`host:port` that clients are told to connect to; where it listens, if empty"
        ),
        "broker.insecure": Key(_truth, False, "serve other machines although nobody has to say who they are"),
        "broker.auto_create_topics": Key(_truth, True, "whether a put to a missing topic makes it"),
        "broker.transactional_id_s": Key(
            _whole(60, 1 << 31),
            TRANSACTIONAL_ID_S,
            "seconds after which a transactional id is forgotten that is not used",
        ),
        "broker.deliver_at": Key(
            _one_of(*DELIVER_AT),
            "all",
            "in which batches of Kafka clients the header `warren.deliver-at` is looked for: `all`, `plain` (those "
            "that are not compressed), or `none`",
        ),
        "broker.log_format": Key(_one_of(*LOG_FORMATS), "text", "`text`, or `json` for one object a line"),
        "broker.log_level": Key(_one_of(*LOG_LEVELS), "info", "`debug`, `info`, `warning` or `error`"),
        "http.host": Key(_text, "127.0.0.1", "the address to serve HTTP on"),
        "http.port": Key(_whole(0, 65_535), None, "its port; HTTP is not served, if nothing is said"),
        **{
            f"limits.{limit.name}": Key(
                _limit_kind(limit.name),
                getattr(_LIMIT_DEFAULTS, limit.name),
                _LIMIT_WORDS[limit.name],
            )
            for limit in fields(Limits)
        },
        "tls.certificate": Key(
            _text, "", "the file of the broker's certificates (PEM); with it all connections use TLS"
        ),
        "tls.key": Key(_text, "", "the file of its private key; in the same file as the certificate, if empty"),
        "tls.client_ca": Key(
            _text, "", "certificates that must have signed those of clients; none are asked for, if empty"
        ),
        "security.sasl": Key(_truth, False, "whether clients have to say who they are"),
        "security.mechanisms": Key(_some_of(*MECHANISMS), MECHANISMS, "how they may do so"),
        "security.rights": Key(_truth, False, "whether they may do only what they have a right to"),
        "security.super_users": Key(_words, (), "users that may do everything"),
        **{f"quotas.{name}": Key(_quota(name), None, _quota_words(name)) for name in QUOTA_KEYS},
        **{f"topics.{name}": Key(_setting(name, kind), None, what) for name, (kind, what) in _TOPIC_KINDS.items()},
    }
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The value of every key, and where it was told: `default`, `file`, `environment` or `flag`."""

    values: Mapping[str, Any]
    sources: Mapping[str, str]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def section(self, name: str) -> dict[str, Any]:
        """What was told of one section, without what nobody told and has no default."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): value
            for key, value in self.values.items()
            if key.startswith(prefix) and value is not None
        }

    def limits(self) -> Limits:
        return Limits(**self.section("limits"))

    def settings(self) -> BrokerSettings:
        security = self.section("security")
        return BrokerSettings(
            auto_create_topics=self["broker.auto_create_topics"],
            transactional_id_s=self["broker.transactional_id_s"],
            deliver_at=self["broker.deliver_at"],
            sasl=security["sasl"],
            mechanisms=security["mechanisms"],
            rights=security["rights"],
            super_users=frozenset(security["super_users"]),
            quotas=MappingProxyType(self.section("quotas")),
            shown={key: ShownKey(_shown(value), self.sources[key]) for key, value in self.values.items()},
        )

    def advertised(self) -> tuple[str, int] | None:
        """What clients are told to connect to; None for where the broker listens."""
        text = self["broker.advertise"]
        return parse_address(text) if text else None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def parse_address(text: str) -> tuple[str, int]:
    """`host:port`, with an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise BadConfiguration("broker.advertise", f"expected host:port, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_configuration(path: str | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Configuration:
    """What the file at `path` says, then the environment, then the flags: whoever comes later wins.

    BadConfiguration names what cannot be, and the known key that is nearest to one that is not known.
    """
    values = {key: each.default for key, each in KEYS.items()}
    sources = dict.fromkeys(KEYS, "default")
    told = [("file", path or "", _of_file(path) if path is not None else iter(()))]
    told += [("environment", "", _of_environment(environment)), ("flag", "", iter(flags.items()))]
    for source, where, found in told:
        for key, value in found:
            values[key] = _checked(f"{where} {key}".strip(), key, value)
            sources[key] = source
    configuration = Configuration(MappingProxyType(values), MappingProxyType(sources))
    configuration.advertised()
    return configuration


def _of_file(path: str) -> Iterator[tuple[str, Any]]:
    try:
        with open(path, "rb") as file:
            text = file.read(CONFIGURATION_SIZE_MAX + 1)
        if len(text) > CONFIGURATION_SIZE_MAX:
            raise BadConfiguration(path, f"more than {CONFIGURATION_SIZE_MAX} bytes")
        tables = tomllib.loads(text.decode())
    except OSError as error:
        raise BadConfiguration(path, error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfiguration(path, f"not TOML: {error}") from error
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise BadConfiguration(path, f"{section} stands in no section; there are {', '.join(_sections())}")
        if section not in _sections():
            raise _unknown(path, "section", section, _sections())
        yield from ((f"{section}.{name}", value) for name, value in table.items())


def _of_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    known = {variable_of(key): key for key in KEYS}
    prefixes = tuple(f"{VARIABLE_PREFIX}{section.upper()}_" for section in _sections())
    for variable, value in sorted(environment.items()):
        if variable in known:
            yield known[variable], value
        elif variable.startswith(prefixes):
            raise _unknown("environment", "variable", variable, list(known))


def variable_of(key: str) -> str:
    """The environment variable that tells `key`."""
    return VARIABLE_PREFIX + key.replace(".", "_").upper()


def _sections() -> list[str]:
    return list(dict.fromkeys(key.partition(".")[0] for key in KEYS))


def _checked(where: str, key: str, value: Any) -> Any:
    known = KEYS.get(key)
    if known is None:
        raise _unknown(where.removesuffix(key).strip() or "configuration", "key", key, list(KEYS))
    try:
        return known.kind(value)
    except (BadInput, TypeError, ValueError) as error:
        raise BadConfiguration(where, str(error)) from error


def _unknown(where: str, what: str, given: str, known: list[str]) -> BadConfiguration:
    near = difflib.get_close_matches(given, known, 1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return BadConfiguration(where, f"there is no {what} {given}; {hint}")
