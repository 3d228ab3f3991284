"""Where requests name things: fields of Kafka's requests, of our own and of HTTP, and handles that stand for things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from warren.broker.own.sessions import NOTHING, Stand
from warren.broker.security.asker import Asker
from warren.broker.security.needs import Names, Source
from warren.broker.security.rights import CLUSTER_NAME, Kind
from warren.config import PARTITIONS_MAX
from warren.errors import BadName, NoSuchTopic, WarrenError
from warren.protocol.consumer_protocol import assigned_topics, subscribed_topics
from warren.protocol.own_api import settings_of
from warren.queue.dead_letter import dead_letter_topic
from warren.queue.group_settings import SETTING_NAMES

CONSUMER: Final = "consumer"
DEAD_LETTER: Final = "warren.dead.letter"
OF_TOPIC: Final = 2
"""The type of a resource with settings that is a topic."""
TRANSACTION: Final = 1
"""The type of a coordinator's key that is a transactional id."""
MANY_COORDINATORS_FROM: Final = 4
MANY_GROUPS_FROM: Final = 8
IF_MADE: Final = "if the request makes it"
IF_MISSING: Final = "if that does not exist"
IF_NAMED: Final = "if the request names one"
IF_WANTED: Final = "if the request wants its name"
IF_SET: Final = "if the request changes it"
QUEUE_READS: Final = frozenset(("get", "done", "join"))
"""What is done to a queue by the users that get its items."""


def is_there(asker: Asker, name: str) -> bool:
    """Whether there is a topic of this name. There is none of a name that no topic can have."""
    try:
        return asker.broker.store.has_topic(name)
    except BadName:
        return False


def _missing(asker: Asker, names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_there(asker, name)]


def _made_by_put(asker: Asker, name: str) -> Sequence[str]:
    """The topic, if a put to it makes it."""
    return _missing(asker, (name,)) if asker.broker.settings.auto_create_topics else ()


def _letters(asker: Asker, topic: str) -> Sequence[str]:
    """The topic of the dead letters of `topic`; none if there is no such topic."""
    try:
        found = asker.broker.topics.find(topic)
    except WarrenError:
        return ()
    return (dead_letter_topic(topic, found.settings.dead_letter),)


def _set_letters(asker: Asker, topic: str, given: Iterable[Any]) -> list[str]:
    """The dead-letter topics that a request names and that `topic` has not; the default is the topic's own."""
    kept = _letters(asker, topic) or (dead_letter_topic(topic, ""),)
    return [name for name in given if isinstance(name, str) and name and name not in kept]


def _of(kind: Kind, words: str, names: Names, when: str = "", rows: str = "") -> Source:
    return Source(kind, words, names, rows, when)


CLUSTER: Final = _of(Kind.CLUSTER, "the cluster", lambda asker, asked: (CLUSTER_NAME,))


# --- Kafka's requests ---


def each_topic(rows: str, field: str) -> Source:
    """The topics in a list of the request, by name."""
    return _of(Kind.TOPIC, "the topic", lambda asker, row: (getattr(row, field) or "",), rows=rows)


def name_of(asker: Asker, topic_id: bytes) -> str:
    """The name of the topic with this id; empty if there is none."""
    try:
        return asker.broker.topics.find_by_id(topic_id).name
    except NoSuchTopic:
        return ""


def name_or_id(asker: Asker, row: Any) -> Sequence[str]:
    """A topic by its name, or by its id."""
    if isinstance(row, str):
        return (row,)
    return (row.name if row.name is not None else name_of(asker, row.topic_id),)


def _subscribed(asker: Asker, request: Any) -> Iterable[str]:
    if request.protocol_type != CONSUMER:
        return ()
    return frozenset[str]().union(*(subscribed_topics(bytes(each.metadata)) for each in request.protocols))


def _given_out(asker: Asker, request: Any) -> Iterable[str]:
    """The topics that the leader of a classic group gives out and that no member asked for when it joined."""
    group = asker.broker.coordinator.find_classic(request.group_id)
    if group is None or group.protocol_type != CONSUMER:
        return ()
    found = frozenset[str]().union(*(assigned_topics(bytes(each.assignment)) for each in request.assignments))
    return found - group.topics


def _coordinated(kind: int) -> Names:
    def names(asker: Any, request: Any) -> Iterable[str]:
        if (request.key_type == TRANSACTION) is not (kind == TRANSACTION):
            return ()
        return request.coordinator_keys if asker.version >= MANY_COORDINATORS_FROM else (request.key,)

    return names


def _configs_letters(field: str) -> Names:
    def names(asker: Asker, row: Any) -> list[str]:
        if getattr(row, "resource_type", OF_TOPIC) != OF_TOPIC:
            return []
        return _set_letters(
            asker, getattr(row, field), (each.value for each in row.configs if each.name == DEAD_LETTER)
        )

    return names


def set_letters(names: Names, rows: str = "") -> tuple[Source, Source]:
    """The dead-letter topics that a request sets, and those of them that do not exist."""
    words = "the dead-letter topic"
    return (
        _of(Kind.TOPIC, words, names, IF_SET, rows),
        _of(Kind.TOPIC, words, lambda asker, asked: _missing(asker, names(asker, asked)), IF_MISSING, rows),
    )


GROUP: Final = _of(Kind.GROUP, "the group", lambda asker, request: (request.group_id or "",))
GROUP_BEFORE_MANY: Final = _of(
    Kind.GROUP, "the group", lambda asker, request: () if asker.version >= MANY_GROUPS_FROM else (request.group_id,)
)
EACH_GROUP_ID: Final = _of(Kind.GROUP, "the group", lambda asker, row: (row.group_id,), rows="groups")
EACH_GROUP: Final = _of(Kind.GROUP, "the group", lambda asker, row: (row,), rows="groups")
EACH_GROUP_IN_IDS: Final = EACH_GROUP._replace(rows="group_ids")
EACH_GROUP_IN_NAMES: Final = EACH_GROUP._replace(rows="groups_names")
TOPICS_OF_GROUP: Final = _of(Kind.TOPIC, "the topic", lambda asker, row: ())
COORDINATED_GROUPS: Final = _of(Kind.GROUP, "the group", _coordinated(0))
COORDINATED_IDS: Final = _of(Kind.TRANSACTIONAL_ID, "the transactional id", _coordinated(TRANSACTION), IF_NAMED)
TRANSACTIONAL_ID: Final = _of(
    Kind.TRANSACTIONAL_ID, "the transactional id", lambda asker, request: (request.transactional_id or "",)
)
TRANSACTIONAL_ID_V3: Final = TRANSACTIONAL_ID._replace(
    names=lambda asker, request: (request.v3_and_below_transactional_id,)
)
TRANSACTIONAL_ID_IF_ANY: Final = TRANSACTIONAL_ID._replace(
    names=lambda asker, request: () if request.transactional_id is None else (request.transactional_id,), when=IF_NAMED
)
SUBSCRIBED: Final = _of(Kind.TOPIC, "every topic that is subscribed to", _subscribed)
GIVEN_OUT: Final = _of(Kind.TOPIC, "every topic that is given out", _given_out)
SUBSCRIBED_NAMES: Final = SUBSCRIBED._replace(names=lambda asker, request: request.subscribed_topic_names or ())
NAMED_TOPICS: Final = each_topic("topics", "name")
NAMED_OR_KNOWN_TOPICS: Final = NAMED_TOPICS._replace(names=name_or_id)
KNOWN_TOPICS: Final = NAMED_TOPICS._replace(names=lambda asker, row: (name_of(asker, row.topic_id),))
MADE_TOPICS: Final = NAMED_TOPICS._replace(names=lambda asker, row: _made_by_put(asker, row.name or ""), when=IF_MADE)
CONFIGURED_TOPICS: Final = _of(
    Kind.TOPIC,
    "the topic",
    lambda asker, row: (row.resource_name,) if row.resource_type == OF_TOPIC else (),
    rows="resources",
)
CONFIGURED_BROKER: Final = _of(
    Kind.CLUSTER,
    "the cluster",
    lambda asker, row: () if row.resource_type == OF_TOPIC else (CLUSTER_NAME,),
    "for settings of the broker",
    "resources",
)
CREATED_LETTERS: Final = set_letters(_configs_letters("name"), "topics")
CONFIGURED_LETTERS: Final = set_letters(_configs_letters("resource_name"), "resources")


# --- Our own calls ---


def held(asker: Asker, handle: int) -> Stand:
    """What a handle of the client stands for; NOTHING if nothing is open by it."""
    return asker.broker.sessions.stand(asker.peer, handle) if handle else NOTHING


def _own_settings_letters(asker: Asker, topic: str, asked: Any) -> list[str]:
    return _set_letters(asker, topic, (settings_of(asked.settings[:PARTITIONS_MAX]).get("dead_letter"),))


def _queue_if(when: str, is_meant: Callable[[str], bool]) -> Source:
    """The topic of a queue that a handle stands for, if the action of the request is meant."""
    return HANDLE_TOPIC._replace(
        names=lambda asker, asked: HANDLE_TOPIC.names(asker, asked) if is_meant(asked.action) else (), when=when
    )


def _name(value: str | None) -> Sequence[str]:
    return (value,) if value else ()


OWN_TOPIC: Final = _of(Kind.TOPIC, "the topic", lambda asker, asked: (asked.topic,))
OWN_TOPIC_IF_ANY: Final = OWN_TOPIC._replace(names=lambda asker, asked: _name(asked.topic), when=IF_NAMED)
OWN_MADE: Final = OWN_TOPIC._replace(
    names=lambda asker, asked: _made_by_put(asker, asked.topic) if asked.topic else (), when=IF_MADE
)
OWN_OPENED: Final = OWN_TOPIC._replace(
    names=lambda asker, asked: () if asked.must_exist else _missing(asker, (asked.topic,)), when=IF_MADE
)
OWN_GROUP: Final = _of(Kind.GROUP, "the group", lambda asker, asked: (asked.group,))
OWN_GROUP_IF_ANY: Final = OWN_GROUP._replace(names=lambda asker, asked: _name(asked.group), when=IF_NAMED)
OWN_LETTERS: Final = _of(
    Kind.TOPIC, "its dead-letter topic", lambda asker, asked: _letters(asker, asked.topic) if asked.topic else ()
)
OWN_SET_LETTERS: Final = set_letters(lambda asker, asked: _own_settings_letters(asker, asked.topic, asked))
HANDLE_TOPIC: Final = _of(Kind.TOPIC, "the topic", lambda asker, asked: _name(held(asker, asked.handle).topic))
QUEUE: Final = _of(Kind.TOPIC, "the topic", lambda asker, asked: (asked.queue,))
QUEUE_OPENED: Final = QUEUE._replace(names=lambda asker, asked: _missing(asker, (asked.queue,)), when=IF_MADE)
QUEUE_LETTERS: Final = set_letters(lambda asker, asked: _own_settings_letters(asker, asked.queue, asked))
QUEUE_PUT: Final = _queue_if("to put", lambda action: action == "put")
QUEUE_GOT: Final = _queue_if("to get, to be done or to join", lambda action: action in QUEUE_READS)
QUEUE_SEEN: Final = _queue_if("for anything else", lambda action: action != "put" and action not in QUEUE_READS)
HANDLE_GROUP: Final = _of(Kind.GROUP, "the group", lambda asker, asked: _name(held(asker, asked.handle).group))
HANDLE_ID: Final = _of(
    Kind.TRANSACTIONAL_ID, "the transactional id", lambda asker, asked: _name(held(asker, asked.handle).id), IF_NAMED
)
HANDLE_LETTERS: Final = OWN_LETTERS._replace(
    names=lambda asker, asked: _letters(asker, topic) if (topic := held(asker, asked.handle).topic) else ()
)
WANTED_LETTERS: Final = HANDLE_LETTERS._replace(
    names=lambda asker, asked: HANDLE_LETTERS.names(asker, asked) if asked.is_dead_wanted else (), when=IF_WANTED
)
MADE_LETTERS: Final = HANDLE_LETTERS._replace(
    names=lambda asker, asked: _missing(asker, WANTED_LETTERS.names(asker, asked)), when=IF_MADE
)
OTHER_TOPIC: Final = _of(
    Kind.TOPIC, "the topic of the group", lambda asker, asked: _name(held(asker, asked.group).topic), IF_NAMED
)
OTHER_GROUP: Final = _of(Kind.GROUP, "the group", lambda asker, asked: _name(held(asker, asked.group).group), IF_NAMED)
OWN_ID: Final = _of(Kind.TRANSACTIONAL_ID, "the transactional id", lambda asker, asked: _name(asked.id), IF_NAMED)
OWN_ID_OR_HANDLE: Final = OWN_ID._replace(
    names=lambda asker, asked: _name(held(asker, asked.handle).id if asked.handle else asked.id)
)
PRODUCER: Final = _of(
    Kind.TRANSACTIONAL_ID, "the transactional id that is the producer's name", lambda asker, asked: (asked.producer,)
)
HANDLE_PRODUCER: Final = PRODUCER._replace(names=lambda asker, asked: _name(held(asker, asked.handle).id))


# --- HTTP ---


def _body(asked: Any, name: str) -> Any:
    """A field of the body; None if the body has not been read yet, or has no such field."""
    return None if asked.body is None else asked.body.get(name)


def _changed_group(asker: Asker, asked: Any) -> Sequence[str]:
    """The group, if it exists and the body gives it other settings. `start` counts for a new group alone."""
    given, name = asked.body or {}, asked.path["group"]
    try:
        kept = asker.broker.topics.find(asked.path["topic"]).group_settings(name)
    except WarrenError:
        return ()
    changes = (option for option, value in given.items() if getattr(kept, SETTING_NAMES[option]) != value)
    return (name,) if any(option != "start" for option in changes) else ()


PATH_TOPIC: Final = _of(Kind.TOPIC, "the topic", lambda asker, asked: (asked.path["topic"],))
PATH_GROUP: Final = _of(Kind.GROUP, "the group", lambda asker, asked: (asked.path["group"],))
PATH_CHANGED_GROUP: Final = PATH_GROUP._replace(names=_changed_group, when="if the request changes its settings")
PATH_MADE: Final = PATH_TOPIC._replace(
    names=lambda asker, asked: _made_by_put(asker, asked.path["topic"]), when=IF_MADE
)
PATH_LETTERS: Final = OWN_LETTERS._replace(names=lambda asker, asked: _letters(asker, asked.path["topic"]))
BODY_TOPIC: Final = _of(Kind.TOPIC, "the topic", lambda asker, asked: _name(_body(asked, "topic")))
CREATION_LETTERS: Final = set_letters(
    lambda asker, asked: _set_letters(asker, _body(asked, "topic") or "", (_body(asked, "dead_letter"),))
)
CHANGE_LETTERS: Final = set_letters(
    lambda asker, asked: _set_letters(asker, asked.path["topic"], (_body(asked, "dead_letter"),))
)
