"""The sources of names in requests: fields of Kafka's, of Warren's own and of HTTP, and handles of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from warren.broker.security.asker import Asker
from warren.broker.security.broker_view import NO_NAMES, HandleNames
from warren.broker.security.needs import Names, NameSource
from warren.broker.security.rights import CLUSTER_NAME, ResourceKind
from warren.errors import BadName, NoSuchTopic, WarrenError
from warren.limits import PARTITIONS_MAX
from warren.protocol.kafka.subscriptions import assigned_topics, subscribed_topics
from warren.protocol.native.calls import settings_of
from warren.queue.leases.dead_letters import dead_letter_topic
from warren.queue.state.group_settings import GROUP_OPTIONS

CONSUMER: Final = "consumer"
DEAD_LETTER: Final = "warren.dead.letter"
OF_TOPIC: Final = 2
"""The resource type of a topic in requests about settings."""
TRANSACTION: Final = 1
"""The key type of a transactional id in FindCoordinator."""
MANY_COORDINATORS_FROM: Final = 4
MANY_GROUPS_FROM: Final = 8
IF_MADE: Final = "if the request creates it"
IF_MISSING: Final = "if that does not exist"
IF_NAMED: Final = "if the request names one"
IF_WANTED: Final = "if the request wants its name"
IF_SET: Final = "if the request changes it"
QUEUE_READS: Final = frozenset(("get", "back", "skip", "done", "join"))
"""The actions on a queue of a user that gets its items."""


def is_there(asker: Asker, name: str) -> bool:
    """Returns whether there is a topic of this name; False if the name is not valid."""
    try:
        return asker.broker.store.has_topic(name)
    except BadName:
        return False


def _missing(asker: Asker, names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_there(asker, name)]


def _made_by_put(asker: Asker, name: str) -> Sequence[str]:
    """Returns the topic if a put to it creates it."""
    return _missing(asker, (name,)) if asker.broker.settings.auto_create_topics else ()


def _letters(asker: Asker, topic: str) -> Sequence[str]:
    """Returns the dead-letter topic of `topic`; none if there is no such topic."""
    try:
        opened = asker.broker.topics.find(topic)
    except WarrenError:
        return ()
    return (dead_letter_topic(topic, opened.settings.dead_letter),)


def _set_letters(asker: Asker, topic: str, names: Iterable[Any]) -> list[str]:
    """Returns the dead-letter topics that a request names and `topic` does not have yet. A topic has one by default."""
    letters = _letters(asker, topic) or (dead_letter_topic(topic, ""),)
    return [name for name in names if isinstance(name, str) and name and name not in letters]


def _of(kind: ResourceKind, words: str, names: Names, when: str = "", rows: str = "") -> NameSource:
    return NameSource(kind, words, names, rows, when)


CLUSTER: Final = _of(ResourceKind.CLUSTER, "the cluster", lambda asker, request: (CLUSTER_NAME,))


# --- Kafka's requests ---


def each_topic(rows: str, field: str) -> NameSource:
    """Returns the source of the topics in a list of the request, by name."""
    return _of(ResourceKind.TOPIC, "the topic", lambda asker, row: (getattr(row, field) or "",), rows=rows)


def name_of(asker: Asker, topic_id: bytes) -> str:
    """Returns the name of the topic with this id; empty if there is none."""
    try:
        return asker.broker.topics.find_by_id(topic_id).name
    except NoSuchTopic:
        return ""


def name_or_id(asker: Asker, row: Any) -> Sequence[str]:
    """Returns the name of a topic that a row names by its name or by its id."""
    if isinstance(row, str):
        return (row,)
    return (row.name if row.name is not None else name_of(asker, row.topic_id),)


def _subscribed(asker: Asker, request: Any) -> Iterable[str]:
    if request.protocol_type != CONSUMER:
        return ()
    return frozenset[str]().union(*(subscribed_topics(bytes(each.metadata)) for each in request.protocols))


def _given_out(asker: Asker, request: Any) -> Iterable[str]:
    """Returns the topics that the leader of a classic group assigns although no member subscribed to them."""
    group = asker.broker.coordinator.find_classic(request.group_id)
    if group is None or group.protocol_type != CONSUMER:
        return ()
    assigned = frozenset[str]().union(*(assigned_topics(bytes(each.assignment)) for each in request.assignments))
    return assigned - group.topics


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


def set_letters(names: Names, rows: str = "") -> tuple[NameSource, NameSource]:
    """Returns the sources of the dead-letter topics that a request sets, and of those of them that do not exist."""
    words = "the dead-letter topic"
    return (
        _of(ResourceKind.TOPIC, words, names, IF_SET, rows),
        _of(ResourceKind.TOPIC, words, lambda asker, request: _missing(asker, names(asker, request)), IF_MISSING, rows),
    )


GROUP: Final = _of(ResourceKind.GROUP, "the group", lambda asker, request: (request.group_id or "",))
GROUP_BEFORE_MANY: Final = _of(
    ResourceKind.GROUP,
    "the group",
    lambda asker, request: () if asker.version >= MANY_GROUPS_FROM else (request.group_id,),
)
EACH_GROUP_ID: Final = _of(ResourceKind.GROUP, "the group", lambda asker, row: (row.group_id,), rows="groups")
EACH_GROUP: Final = _of(ResourceKind.GROUP, "the group", lambda asker, row: (row,), rows="groups")
EACH_GROUP_IN_IDS: Final = EACH_GROUP._replace(rows="group_ids")
EACH_GROUP_IN_NAMES: Final = EACH_GROUP._replace(rows="groups_names")
TOPICS_OF_GROUP: Final = _of(ResourceKind.TOPIC, "the topic", lambda asker, row: ())
COORDINATED_GROUPS: Final = _of(ResourceKind.GROUP, "the group", _coordinated(0))
COORDINATED_IDS: Final = _of(ResourceKind.TRANSACTIONAL_ID, "the transactional id", _coordinated(TRANSACTION), IF_NAMED)
TRANSACTIONAL_ID: Final = _of(
    ResourceKind.TRANSACTIONAL_ID, "the transactional id", lambda asker, request: (request.transactional_id or "",)
)
TRANSACTIONAL_ID_V3: Final = TRANSACTIONAL_ID._replace(
    names=lambda asker, request: (request.v3_and_below_transactional_id,)
)
TRANSACTIONAL_ID_IF_ANY: Final = TRANSACTIONAL_ID._replace(
    names=lambda asker, request: () if request.transactional_id is None else (request.transactional_id,), when=IF_NAMED
)
SUBSCRIBED: Final = _of(ResourceKind.TOPIC, "every topic that is subscribed to", _subscribed)
GIVEN_OUT: Final = _of(ResourceKind.TOPIC, "every topic that is given out", _given_out)
SUBSCRIBED_NAMES: Final = SUBSCRIBED._replace(names=lambda asker, request: request.subscribed_topic_names or ())
NAMED_TOPICS: Final = each_topic("topics", "name")
NAMED_OR_KNOWN_TOPICS: Final = NAMED_TOPICS._replace(names=name_or_id)
KNOWN_TOPICS: Final = NAMED_TOPICS._replace(names=lambda asker, row: (name_of(asker, row.topic_id),))
MADE_TOPICS: Final = NAMED_TOPICS._replace(names=lambda asker, row: _made_by_put(asker, row.name or ""), when=IF_MADE)
CONFIGURED_TOPICS: Final = _of(
    ResourceKind.TOPIC,
    "the topic",
    lambda asker, row: (row.resource_name,) if row.resource_type == OF_TOPIC else (),
    rows="resources",
)
CONFIGURED_BROKER: Final = _of(
    ResourceKind.CLUSTER,
    "the cluster",
    lambda asker, row: () if row.resource_type == OF_TOPIC else (CLUSTER_NAME,),
    "for settings of the broker",
    "resources",
)
CREATED_LETTERS: Final = set_letters(_configs_letters("name"), "topics")
CONFIGURED_LETTERS: Final = set_letters(_configs_letters("resource_name"), "resources")


# --- Warren's own calls ---


def handle_names(asker: Asker, handle: int) -> HandleNames:
    """Returns the names that a handle of the client stands for; NO_NAMES if nothing is open by it."""
    return asker.broker.sessions.names(asker.peer, handle) if handle else NO_NAMES


def _own_settings_letters(asker: Asker, topic: str, request: Any) -> list[str]:
    return _set_letters(asker, topic, (settings_of(request.settings[:PARTITIONS_MAX]).get("dead_letter"),))


def _queue_if(when: str, is_meant: Callable[[str], bool]) -> NameSource:
    """Returns the source of the queue's topic behind a handle, for requests whose action `is_meant`."""
    return HANDLE_TOPIC._replace(
        names=lambda asker, request: HANDLE_TOPIC.names(asker, request) if is_meant(request.action) else (), when=when
    )


def _name(value: str | None) -> Sequence[str]:
    return (value,) if value else ()


NATIVE_TOPIC: Final = _of(ResourceKind.TOPIC, "the topic", lambda asker, request: (request.topic,))
NATIVE_TOPIC_IF_ANY: Final = NATIVE_TOPIC._replace(names=lambda asker, request: _name(request.topic), when=IF_NAMED)
NATIVE_MADE: Final = NATIVE_TOPIC._replace(
    names=lambda asker, request: _made_by_put(asker, request.topic) if request.topic else (), when=IF_MADE
)
NATIVE_OPENED: Final = NATIVE_TOPIC._replace(
    names=lambda asker, request: () if request.must_exist else _missing(asker, (request.topic,)), when=IF_MADE
)
NATIVE_GROUP: Final = _of(ResourceKind.GROUP, "the group", lambda asker, request: (request.group,))
NATIVE_GROUP_IF_ANY: Final = NATIVE_GROUP._replace(names=lambda asker, request: _name(request.group), when=IF_NAMED)
NATIVE_LETTERS: Final = _of(
    ResourceKind.TOPIC,
    "its dead-letter topic",
    lambda asker, request: _letters(asker, request.topic) if request.topic else (),
)
NATIVE_SET_LETTERS: Final = set_letters(lambda asker, request: _own_settings_letters(asker, request.topic, request))
HANDLE_TOPIC: Final = _of(
    ResourceKind.TOPIC, "the topic", lambda asker, request: _name(handle_names(asker, request.handle).topic)
)
QUEUE: Final = _of(ResourceKind.TOPIC, "the topic", lambda asker, request: (request.queue,))
QUEUE_OPENED: Final = QUEUE._replace(
    names=lambda asker, request: () if request.must_exist else _missing(asker, (request.queue,)), when=IF_MADE
)
QUEUE_LETTERS: Final = set_letters(lambda asker, request: _own_settings_letters(asker, request.queue, request))
QUEUE_PUT: Final = _queue_if("to put", lambda action: action == "put")
QUEUE_GOT: Final = _queue_if(
    "to get, to give back, to skip, to be done or to join", lambda action: action in QUEUE_READS
)
QUEUE_SEEN: Final = _queue_if("for anything else", lambda action: action != "put" and action not in QUEUE_READS)
HANDLE_GROUP: Final = _of(
    ResourceKind.GROUP, "the group", lambda asker, request: _name(handle_names(asker, request.handle).group)
)
HANDLE_ID: Final = _of(
    ResourceKind.TRANSACTIONAL_ID,
    "the transactional id",
    lambda asker, request: _name(handle_names(asker, request.handle).id),
    IF_NAMED,
)
HANDLE_LETTERS: Final = NATIVE_LETTERS._replace(
    names=lambda asker, request: _letters(asker, topic) if (topic := handle_names(asker, request.handle).topic) else ()
)
WANTED_LETTERS: Final = HANDLE_LETTERS._replace(
    names=lambda asker, request: HANDLE_LETTERS.names(asker, request) if request.is_dead_wanted else (), when=IF_WANTED
)
MADE_LETTERS: Final = HANDLE_LETTERS._replace(
    names=lambda asker, request: _missing(asker, WANTED_LETTERS.names(asker, request)), when=IF_MADE
)
OTHER_TOPIC: Final = _of(
    ResourceKind.TOPIC,
    "the topic of the group",
    lambda asker, request: _name(handle_names(asker, request.group).topic),
    IF_NAMED,
)
OTHER_GROUP: Final = _of(
    ResourceKind.GROUP, "the group", lambda asker, request: _name(handle_names(asker, request.group).group), IF_NAMED
)
NATIVE_ID: Final = _of(
    ResourceKind.TRANSACTIONAL_ID, "the transactional id", lambda asker, request: _name(request.id), IF_NAMED
)
NATIVE_ID_OR_HANDLE: Final = NATIVE_ID._replace(
    names=lambda asker, request: _name(handle_names(asker, request.handle).id if request.handle else request.id)
)
PRODUCER: Final = _of(
    ResourceKind.TRANSACTIONAL_ID,
    "the transactional id that is the producer's name",
    lambda asker, request: (request.producer,),
)
HANDLE_PRODUCER: Final = PRODUCER._replace(names=lambda asker, request: _name(handle_names(asker, request.handle).id))


# --- HTTP ---


def _body(request: Any, name: str) -> Any:
    """Returns a field of the body; None if the body has not been read yet, or has no such field."""
    return None if request.body is None else request.body.get(name)


def _changed_group(asker: Asker, request: Any) -> Sequence[str]:
    """Returns the group if it exists and the body gives it other settings. `start` counts only for a new group."""
    body, name = request.body or {}, request.path["group"]
    try:
        settings = asker.broker.topics.find(request.path["topic"]).group_settings(name)
    except WarrenError:
        return ()
    changes = (option for option, value in body.items() if getattr(settings, GROUP_OPTIONS[option].field) != value)
    return (name,) if any(option != "start" for option in changes) else ()


PATH_TOPIC: Final = _of(ResourceKind.TOPIC, "the topic", lambda asker, request: (request.path["topic"],))
PATH_GROUP: Final = _of(ResourceKind.GROUP, "the group", lambda asker, request: (request.path["group"],))
PATH_CHANGED_GROUP: Final = PATH_GROUP._replace(names=_changed_group, when="if the request changes its settings")
PATH_MADE: Final = PATH_TOPIC._replace(
    names=lambda asker, request: _made_by_put(asker, request.path["topic"]), when=IF_MADE
)
PATH_LETTERS: Final = NATIVE_LETTERS._replace(names=lambda asker, request: _letters(asker, request.path["topic"]))
BODY_TOPIC: Final = _of(ResourceKind.TOPIC, "the topic", lambda asker, request: _name(_body(request, "topic")))
CREATION_LETTERS: Final = set_letters(
    lambda asker, request: _set_letters(asker, _body(request, "topic") or "", (_body(request, "dead_letter"),))
)
CHANGE_LETTERS: Final = set_letters(
    lambda asker, request: _set_letters(asker, request.path["topic"], (_body(request, "dead_letter"),))
)
