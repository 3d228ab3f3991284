"""The configuration of a broker: the table of all keys, and their values from a file, the environment and flags."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from warren.broker.cluster.settings import CLUSTER_SETTINGS, ClusterSettings
from warren.broker.net.places import is_any_address, is_loopback
from warren.broker.quotas.entities import KEYS as QUOTA_KEYS
from warren.broker.settings import BROKER_LIMITS, BROKER_SETTINGS, BrokerLimits, BrokerSettings, ShownKey
from warren.errors import BadConfiguration, BadInput
from warren.queue.state.settings import FIXED, TOPIC_SETTINGS
from warren.settings import Count, Flag, OneOf, Parsed, Setting, Table, Text, refused, unknown

BROKER_PORT_DEFAULT: Final = 9092
CONFIGURATION_SIZE_MAX: Final = 1 << 20
VARIABLE_PREFIX: Final = "WARREN_"
FILE_DEFAULT: Final = "warren.toml"
LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of `host:port`; an IPv6 address stands in brackets. Raises BadInput for any other text."""
    host, _, port = text.rpartition(":")
    try:
        number = PORT.parse(port) if host else 0
    except BadInput:
        number = 0
    if not number:
        raise refused("host:port", text)
    return host.removeprefix("[").removesuffix("]"), number


def _advertised(text: str) -> str:
    if text:
        parse_address(text)
    return text


def _section(section: str, settings: Iterable[Setting]) -> Iterator[Setting]:
    return (each._replace(name=f"{section}.{each.name}") for each in settings)


def _quotas() -> Iterator[Setting]:
    for name, quota in QUOTA_KEYS.items():
        yield Setting(f"quotas.{name}", quota.kind, None, f"{quota.description}; no limit, if not set")


def _topics() -> Iterator[Setting]:
    # `broker.deliver_at` applies to all topics, existing ones included.
    settings = TOPIC_SETTINGS.without(*FIXED, "dead_letter", "deliver_at").values()
    return _section("topics", (each._replace(default=None) for each in settings))


PORT: Final = Count(1, 65_535)
ANY_PORT: Final = Count(0, 65_535)
KEYS: Final = Table(
    "key",
    [
        Setting("broker.host", Text(), "127.0.0.1", "the address to listen on"),
        Setting("broker.port", ANY_PORT, BROKER_PORT_DEFAULT, "the port; 0 takes any free port"),
        Setting(
            "broker.advertise",
            Parsed("host:port", _advertised),
            "",
            "the `host:port` that clients connect to; if empty, the address that the broker listens on",
        ),
        Setting("broker.insecure", Flag(), False, "serve other machines although clients do not have to log in"),
        *(each for name, each in BROKER_SETTINGS.items() if name.startswith("broker.")),
        Setting("broker.log_format", OneOf(LOG_FORMATS), "text", "`text`, or `json` for one object per line"),
        Setting("broker.log_level", OneOf(LOG_LEVELS), "info", "`debug`, `info`, `warning` or `error`"),
        Setting("http.host", Text(), "127.0.0.1", "the address to serve HTTP on"),
        Setting("http.port", ANY_PORT, None, "its port; HTTP is not served, if not set"),
        *_section("limits", BROKER_LIMITS.values()),
        Setting(
            "tls.certificate",
            Text(),
            "",
            "the file of the broker's certificates (PEM); with it all connections use TLS",
        ),
        Setting("tls.key", Text(), "", "the file of its private key; in the same file as the certificate, if empty"),
        Setting(
            "tls.client_ca",
            Text(),
            "",
            "certificates that must have signed those of clients; none are requested, if empty",
        ),
        Setting(
            "tls.replica_ca",
            Text(),
            "",
            "certificates that must have signed those of the other replicas of a cluster; if empty, those of "
            "`client_ca`, or else those that the machine trusts",
        ),
        *(each for name, each in BROKER_SETTINGS.items() if name.startswith("security.")),
        *_quotas(),
        *_section("cluster", CLUSTER_SETTINGS.values()),
        *_topics(),
    ],
)
"""Every key of the configuration. A key whose default is None has no value by default."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The value of every key, and its source: `default`, `file`, `environment` or `flag`."""

    values: Mapping[str, Any]
    sources: Mapping[str, str]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def section(self, name: str) -> dict[str, Any]:
        """Returns the keys and values of one section, without keys that have neither a value nor a default."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): value
            for key, value in self.values.items()
            if key.startswith(prefix) and value is not None
        }

    def cluster(self) -> ClusterSettings:
        return ClusterSettings(**self.section("cluster"))

    def limits(self) -> BrokerLimits:
        return BrokerLimits(**self.section("limits"))

    def settings(self) -> BrokerSettings:
        return BrokerSettings(
            **{each.field: self[name] for name, each in BROKER_SETTINGS.items()},
            quotas=MappingProxyType(self.section("quotas")),
            key_values={key: ShownKey(_excerpt(value), self.sources[key]) for key, value in self.values.items()},
        )

    def advertised(self) -> tuple[str, int] | None:
        """Returns the host and port that clients connect to; None means the address that the broker listens on."""
        text = self["broker.advertise"]
        return parse_address(text) if text else None

    def http_url(self, host: str) -> str:
        """Returns where other machines reach the HTTP port of a broker at `host`; empty if they may not, or not surely.

        That is so if HTTP is for this machine only and the broker is not, or if its port is any free one.
        """
        listens_at, port = self["http.host"], self["http.port"]
        if not port or is_any_address(host) or (is_loopback(listens_at) and not is_loopback(host)):
            return ""
        name = host if is_loopback(listens_at) or is_any_address(listens_at) else listens_at
        scheme = "https" if self["tls.certificate"] else "http"
        return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def _excerpt(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def read_configuration(path: str | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Configuration:
    """Returns the values of the file at `path`, the environment and the flags. A later source overrides an earlier one.

    Raises BadConfiguration for a value that is not possible, and for an unknown key, with the most similar key.
    """
    values = {key: each.default for key, each in KEYS.items()}
    sources = dict.fromkeys(KEYS, "default")
    entries = (
        *(("file", f"{path} ", key, value) for key, value in (_of_file(path) if path is not None else ())),
        *(("environment", "", key, value) for key, value in _of_environment(environment)),
        *(("flag", "", key, value) for key, value in flags.items()),
    )
    for source, place, key, value in entries:
        values[key] = _checked(place, key, value)
        sources[key] = source
    return Configuration(MappingProxyType(values), MappingProxyType(sources))


def _of_file(path: str) -> Iterator[tuple[str, Any]]:
    try:
        with open(path, "rb") as file:
            text = file.read(CONFIGURATION_SIZE_MAX + 1)
        if len(text) > CONFIGURATION_SIZE_MAX:
            raise BadConfiguration(path, f"more than {CONFIGURATION_SIZE_MAX} bytes")
        tables = tomllib.loads(text.decode())
    except OSError as error:
        raise BadConfiguration(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadConfiguration):
            raise
        # Not only TOMLDecodeError, because a number of thousands of digits raises a plain ValueError.
        raise BadConfiguration(path, f"not TOML: {error}") from error
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise BadConfiguration(path, f"{section} is in no section; there are {', '.join(_sections())}")
        if section not in _sections():
            raise BadConfiguration(path, unknown("section", section, _sections()))
        yield from ((f"{section}.{name}", value) for name, value in table.items())


def _of_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    keys = {variable_of(key): key for key in KEYS}
    prefixes = tuple(f"{VARIABLE_PREFIX}{section.upper()}_" for section in _sections())
    for variable, value in sorted(environment.items()):
        if variable in keys:
            yield keys[variable], value
        elif variable.startswith(prefixes):
            raise BadConfiguration("environment", unknown("variable", variable, keys))


def variable_of(key: str) -> str:
    """Returns the name of the environment variable for `key`."""
    return VARIABLE_PREFIX + key.replace(".", "_").upper()


def _sections() -> list[str]:
    return list(dict.fromkeys(key.partition(".")[0] for key in KEYS))


def _checked(place: str, key: str, value: Any) -> Any:
    """Returns the value of a key. `place` names the file, with a space after it, or is empty."""
    if key not in KEYS:
        raise BadConfiguration(place.strip() or "configuration", unknown("key", key, KEYS))
    kind = KEYS[key].kind
    try:
        return kind.parse(value) if isinstance(value, str) else kind.check(value)
    except BadInput as error:
        raise BadConfiguration(f"{place}{key}", str(error)) from error
