"""Options as Spark passes them: texts by name, which the table of the options parses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from warren.errors import BadOption
from warren.settings import Setting, Table, hint

WITHOUT_MEANING: Final = frozenset(
    {
        "groupidprefix",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "kafkaconsumer.polltimeoutms",
        "partition.metadata.cache.ttl.ms",
        "startingoffsetsbytimestampstrategy",
        "includetimestamptype",
    }
)
"""Options of queries written for Kafka that have no meaning here, like all that begin with
`kafka.`. They are ignored.
"""
REFUSED: Final = MappingProxyType(
    {
        "minoffsetspertrigger": "a micro-batch takes all new messages; choose the interval of the trigger instead",
        "maxtriggerdelay": "a micro-batch takes all new messages; choose the interval of the trigger instead",
    }
)
SPARKS_OWN: Final = frozenset(
    {"location", "owner", "provider", "comment", "collation", "external", "is_managed_location", "serialization.format"}
)
SPARKS_OWN_PREFIXES: Final = ("spark.", "option.", "kafka.")


def option_table(settings: Iterable[Setting]) -> Table:
    """Returns a table of options. Its errors are BadOption."""
    return Table("option", settings, refuse=lambda option, error: BadOption(option, str(error)))


@dataclass(frozen=True, slots=True)
class RawOptions:
    """The options of a query by their names in lower case, their table, and the current time."""

    table: Table
    texts: Mapping[str, str]
    now_us: int = 0

    @classmethod
    def of(cls, table: Table, options: Mapping[str, str], now_us: int = 0) -> RawOptions:
        return cls(table, {option.lower(): text for option, text in options.items()}, now_us)

    def check_names(self) -> None:
        """Raises BadOption, with the most similar name, for an option that neither the table nor Spark knows."""
        names = {name.lower() for name in self.table}
        for option in self.texts:
            if option in REFUSED and option not in names:
                raise BadOption(option, REFUSED[option])
            if option in names | WITHOUT_MEANING | SPARKS_OWN or option.startswith(SPARKS_OWN_PREFIXES):
                continue
            raise BadOption(option, f"it does not exist; {hint(option, self.table)}")

    def exact(self, option: str) -> str | None:
        """Returns the text with any space around it; None if the option is missing or empty."""
        return self.texts.get(option.lower()) or None

    def text(self, option: str) -> str | None:
        """Returns the text without space around it; None if the option is missing or empty."""
        return self.texts.get(option.lower(), "").strip() or None

    def value(self, option: str) -> Any:
        """Returns the parsed value, or the default if the option is missing or empty. Raises BadOption."""
        text = self.text(option)
        return self.table[option].default if text is None else self.table.parse(option, text)
