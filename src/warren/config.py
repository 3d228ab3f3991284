"""Every setting, its default and its limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from warren.errors import BadInput

VERSION_DEFAULT: Final = 2
VERSIONS: Final = (1, 2)

BLOCK_SIZE_DEFAULT: Final = 64 << 20
BLOCK_SIZE_MIN: Final = 4 << 10
BLOCK_SIZE_MAX: Final = 1 << 29
PREALLOCATE_FIRST: Final = 32 << 10
PREALLOCATE_STEP_MAX: Final = 8 << 20

INDEX_SPACING: Final = 64
MAX_BLOCK_COUNT_DEFAULT: Final = 64

BODY_SIZE_MAX: Final = 128 << 20
KEY_SIZE_MAX: Final = 65_534
HEADERS_SIZE_MAX: Final = 65_535
ID_SIZE_MAX: Final = 40
TAG_SIZE_MAX: Final = 128
FILTER_SIZE_MAX: Final = 128
MARKER_SIZE_MAX: Final = 1024
READER_NAME_SIZE_MAX: Final = 200

BATCH_COUNT_MAX: Final = 65_536
BATCH_SIZE_TARGET: Final = 4 << 20
RAW_SIZE_MAX: Final = 256 << 20
"""What a compressed record may unpack to: checked before memory is taken."""

READ_LIMIT_DEFAULT: Final = 1000
UNREADABLE_SHOWN_MAX: Final = 100
"""Of how many batches that cannot be read a verification tells the place."""
SCAN_ROWS_DEFAULT: Final = 65_536
SCAN_IN_PLACE_ROWS_MIN: Final = 512
"""Batches of so many rows and more are a record batch each: copying their bodies would cost more than that.

Unless whoever reads them says that small record batches cost more there.
"""

LOCK_WAIT_S_MAX: Final = 30.0
INTERVAL_S_MAX: Final = 60.0
WAIT_S_MAX: Final = 86_400.0
DELAY_S_MAX: Final = 100 * 366 * 86_400.0

OPTIMISE_ABOVE_DEFAULT: Final = 512 << 10
QUEUE_FILE_READ_SIZE: Final = 64 << 10
QUEUE_FILE_COPY_SIZE: Final = 1 << 20
QUEUE_FILE_LOOK_S: Final = 0.02
"""How often whoever waits on a queue file looks what other processes did to it."""

NAME_SIZE_MAX: Final = 249
GROUP_NAME_SIZE_MAX: Final = READER_NAME_SIZE_MAX
PARTITIONS_MAX: Final = 1000
RENEWAL_COUNT_MAX: Final = 1_000
"""How many leases are renewed with one event of the ledger, or one request to a broker."""
RENEWAL_PAUSE_S: Final = 1.0
"""After how long, at most, a renewal that failed is tried again."""
RENEWAL_IDLE_S: Final = 60.0
"""After how long without a message in hand the thread that renews leases ends."""
RENEWAL_STOP_S: Final = 10.0
"""How long a store that is closed waits for a renewal that is under way."""
RETENTION_LOOK_S: Final = 30.0
"""How often it is seen whether blocks can be retired."""

TRANSACTION_ID_SIZE_MAX: Final = 200
TRANSACTION_TIMEOUT_S_DEFAULT: Final = 60.0
TRANSACTION_TIMEOUT_S_MAX: Final = 7 * 86_400.0
TRANSACTION_MEMORY_MAX: Final = 8 << 20
"""What an open transaction keeps in memory; what goes beyond waits in the journal."""
TRANSACTIONS_REMEMBERED_MAX: Final = 10_000
"""How many ended transactions a repeated commit or abort is still answered for."""
APPLICATIONS_REMEMBERED_MAX: Final = 10_000
"""Of how many applications that decide transactions in batches it is remembered how far they got."""
APPLICATION_NAME_SIZE_MAX: Final = 1000
APPEND_SIZE_TARGET: Final = 16 << 20
"""How many bytes of a transaction's records are read from the journal and appended to their log at once."""
TRANSACTION_LOOK_S: Final = 1.0
"""How often it is seen whether a transaction ran out of time, or has to be finished for another process."""
PRODUCER_NOTE_PUTS: Final = 1000
"""After how many puts a producer notes how far it got: what the next opening has to look through at most."""

JAVA_VERSION_MIN: Final = 17
JAVA_ANSWER_S_MAX: Final = 60.0
"""How long a Java may take to tell its version."""
SPARK_MEMORY_MIN: Final = 1 << 30
SPARK_MEMORY_MAX: Final = 8 << 30
"""What Spark's JVM gets at least and at most, where nobody says otherwise."""

ARCHIVE_GROUP: Final = "warren.archive"
"""The group whose position is how far a topic is archived and verified: retention goes no further."""
ARCHIVE_FILE_SIZE_TARGET: Final = 128 << 20
ARCHIVE_ROW_GROUP_SIZE_TARGET: Final = 32 << 20
ARCHIVE_ROW_GROUP_COUNT_MAX: Final = 1 << 18
ARCHIVE_SPLIT_SIZE_MIN: Final = 16 << 20
ARCHIVE_SPLIT_SIZE_MAX: Final = 1 << 30
"""How many bytes of a log a task archives, at least where there are more, and at most."""
ARCHIVE_MANIFESTS_KEPT: Final = 20
ARCHIVE_COMMITS_TRIED_MAX: Final = 20
ARCHIVE_LOCK_WAIT_S_MAX: Final = 30.0

DEMO_DELIVERY_S_MAX: Final = 30.0
"""How long the demo waits for what it put with a delay."""
PIPELINE_FILE_SIZE_MAX: Final = 1 << 20
PIPELINE_STEPS_MAX: Final = 100
PIPELINE_LOOK_S: Final = 0.25
"""How often it is seen how far a pipeline came, and whether it was told to stop."""
PIPELINE_STOP_LOOK_S: Final = 0.02
PIPELINE_STOP_S_MAX: Final = 30.0
"""How long a pipeline that was told to stop may take to finish its batch."""
PIPELINE_RESTARTS_MAX: Final = 3
"""How often queries of a pipeline are started again without a batch done in between, when Spark failed by chance."""

SPARK_BATCH_ROWS_MIN: Final = 10_000
SPARK_BATCH_ROWS_MAX: Final = 65_536
SPARK_BATCH_SIZE_TARGET: Final = 16 << 20
"""Record batches for Spark: smaller ones are joined up to the least, larger ones cut at the most."""
SPARK_TASK_ROWS_MIN: Final = 50_000
"""A task with fewer messages costs more to start than to run: fewer tasks are made."""
SPARK_TASK_ROWS_MAX: Final = 10_000_000
"""What a task that fails has to read again at most."""
SPARK_TASKS_MAX: Final = 100_000

FRAME_SIZE_MAX: Final = 100 << 20
"""The largest request that is taken: Kafka's own default."""
ANSWER_SIZE_MAX: Final = BODY_SIZE_MAX + (1 << 20)
"""The largest answer of our own calls that a client takes: a message of the largest size, and all that is with it."""
FRAME_BUFFER_SIZE: Final = 64 << 10
"""What each connection receives small frames into; larger ones get a buffer of their own."""
CONTROL_SIZE_MAX: Final = 2 << 20
"""The largest request other than a Produce: what it unpacks to may take a hundred times as much."""

REQUEST_ARRAY_COUNT_MAX: Final = 10_000
"""The most elements of one array of a request, unless the array has a limit of its own: topics, keys, partitions."""
REQUEST_ELEMENTS_MAX: Final = 20_000
"""The most elements of all arrays that lie within the elements of another array of a request."""
LOOP_REQUEST_SIZE_MAX: Final = 16 << 10
"""Up to this size a request is decoded on the event loop, and above it by a thread."""
LOOP_CARRIED_SIZE_MAX: Final = 1 << 20
"""The same of a request of our own that carries messages."""
LOOP_ROWS_AT_ONCE: Final = 64
"""Up to so many rows a request is carried out, and an answer encoded, without letting other requests in between."""
LOOP_LOOK_S: Final = 0.1
LOOP_PAUSE_LOGGED_S: Final = 0.5
"""How often it is measured for how long the event loop stood still, and from when on that is logged."""
SCANNED_SIZE_MAX: Final = 16 << 20
"""About how many bytes of a log a request looks through at once for messages that pass its filter."""
LOOP_BUILT_MAX: Final = 1_000
"""Up to so many messages of Warren's own are made into a batch for a Kafka client on the event loop."""
LOOP_SLICE_S: Final = 0.01
"""How long a request with more rows works on the event loop before others get their turn."""
TAGGED_FIELDS_MAX: Final = 32
"""The most tagged fields of one struct of a request: Kafka's own messages have fewer than ten."""
PRODUCE_PARTITIONS_MAX: Final = 10_000
FETCH_PARTITIONS_MAX: Final = 10_000
"""The most partitions, over all topics, that one Produce or one Fetch names."""
PRODUCE_BATCHES_MAX: Final = 100
"""The most batches that one Produce may have for one partition. Kafka's clients send one."""

SPARK_STAGING_TIMEOUT_S: Final = 86_400.0
"""How long a task of the Spark sink may take, and how long what it staged waits for its query to commit it."""
SPARK_STAGE_SIZE_TARGET: Final = 4 << 20
SPARK_STAGE_ROWS_MAX: Final = 65_536
"""Small Arrow batches of Spark are put together up to so many bytes or rows before they are staged."""
SPARK_STORES_KEPT_MAX: Final = 4
"""How many stores a Python process of Spark keeps open between its tasks."""

STATS_WINDOWS_MAX: Final = 100_000
STATS_WINDOWS_SHOWN: Final = 24
"""How many windows there are at most where nobody says how long one is."""
STATS_TAGS_MAX: Final = 10_000
"""How many tags a task counts, all windows together; the rest is counted as one."""
STATS_ERROR_MAX: Final = 0.01
"""How far a quantile may be off, relative to itself."""

Compression = Literal["none", "zstd", "lz4"]

BROKER_PORT_DEFAULT: Final = 9092
BROKER_BACKLOG: Final = 1024
BROKER_CONNECTIONS_MAX: Final = 10_000
BROKER_CONNECTIONS_MAX_PER_ADDRESS: Final = 5_000
"""No machine takes all places; this one itself may, because clients behind a proxy all come from its address."""
STRANGERS_PART: Final = 4
"""If users have to log in, connections that have not logged in yet get one of so many places."""
CONFIGURATION_SIZE_MAX: Final = 1 << 20
TLS_HANDSHAKE_S_MAX: Final = 10.0
SCRAM_ITERATIONS_MIN: Final = 4096
SCRAM_ITERATIONS_MAX: Final = 1_000_000
"""What a client takes for a challenge: what RFC 7677 asks for at least, and no more than a second or so."""
SCRAM_ITERATIONS: Final = 100_000
"""Of a password that is set now. The number is kept with each user, and those of before keep theirs."""
SCRAM_SALT_SIZE: Final = 16
SCRAM_NONCE_SIZE: Final = 24
USERS_MAX: Final = 10_000
USER_NAME_SIZE_MAX: Final = 200
PASSWORD_SIZE_MIN: Final = 8
PASSWORD_SIZE_MAX: Final = 1024
USERS_LOOK_S: Final = 0.5
"""How soon connections of a user are closed who was deleted, or whose password was changed."""
AUTHENTICATION_TRIES_MAX: Final = 3
"""How often a connection may try to show who it is."""
AUTHENTICATION_ANSWER_S: Final = 0.25
"""How long the answer to a wrong password takes, whatever was wrong."""
AUTHENTICATION_S_MAX: Final = 30.0
"""How long a connection may take to show who it is."""
LOGIN_THREADS: Final = 2
LOGINS_WAITING_MAX: Final = 1000
"""How many passwords are checked at a time, and how many wait for that."""
LOGIN_FAILURES_FREE: Final = 5
LOGIN_FAILURES_FREE_IN_ALL: Final = 50
"""After so many failed logins of one user from one address, or of all users from it, the next ones have to wait."""
LOGIN_DELAY_S_MIN: Final = 0.25
LOGIN_DELAY_S_MAX: Final = 5.0
LOGIN_WAIT_S_MAX: Final = 10.0
"""How long they wait at first, doubled with each failure, and at last; one that would wait longer is refused."""
LOGIN_FAILURES_HALVED_S: Final = 60.0
"""After this time a failed login counts half."""
LOGIN_FAILURES_REMEMBERED_MAX: Final = 10_000
"""Of how many addresses and users failed logins are remembered."""
FIRST_BYTE_S_MAX: Final = 5.0
"""How long a connection that has to log in may take to send its first byte."""
RIGHTS_MAX: Final = 10_000
RIGHTS_REMEMBERED_MAX: Final = 100_000
"""How many answers to who may do what are remembered."""
RIGHTS_LOOK_S: Final = 0.5
"""How soon a change of rights by another process is seen."""
LIMITED_LOG_LINES_MAX: Final = 20
LIMITED_LOG_S: Final = 10.0
"""How many lines a log gets in so many seconds of one kind of thing that clients bring about."""
AUTHENTICATION_SIZE_MAX: Final = 64 << 10
"""The largest request of somebody who has not."""
BROKER_WAITING_SIZE_MAX: Final = 8 << 20
"""Requests of one connection that were received and are not answered."""
BROKER_MEMORY_SIZE_MAX: Final = 256 << 20
"""What all clients together may make a broker hold in memory."""
BROKER_STALLED_S_MAX: Final = 60.0
"""After this time a request of which too little has come, or an answer that is not taken, ends its connection."""
STALLED_PARTS: Final = 10
"""In each such time at least one of so many parts of a large request has to come."""
STALLED_LOOKS: Final = 4
"""How often in this time it is seen whether connections come on."""
STALLED_HURRY: Final = 6
"""So many times shorter is the time while another request waits for memory."""
MEMORY_OWNER_PART: Final = 2
MEMORY_KEPT_PART: Final = 2
MEMORY_ANSWERS_PART: Final = 4
MEMORY_LARGE_PART: Final = 16
"""Of the memory of a broker one owner may have one of so many parts, what stays between requests another, and answers
another. Pieces that are larger than the last of these parts have one owner's part together."""
MEMORY_SMALL_SIZE_MAX: Final = 64 << 10
"""Requests and answers up to this size never wait for memory."""
MEMORY_KEPT_SMALL_SIZE_MAX: Final = 4 << 10
"""What is kept in smaller pieces has some room of its own."""
QUOTAS_MAX: Final = 10_000
"""How many entities may have quotas."""
QUOTA_VALUE_MAX: Final = 1 << 53
QUOTAS_LOOK_S: Final = 0.5
"""How soon a change of quotas by another process is seen."""
QUOTA_BURST_S: Final = 1.0
"""What was not used for so long may be used at once."""
QUOTA_THROTTLE_S_MAX: Final = 10.0
"""How long an answer may tell a client to wait, and how long its connection is not read."""
QUOTA_CLIENTS_REMEMBERED_MAX: Final = 10_000
"""Of how many users and client ids it is remembered what they have used."""
ALLOTMENT_LOOK_S: Final = 5.0
"""How often at most all topics are read to count those of each user."""
BROKER_TOPICS_MAX: Final = 20_000
BROKER_PARTITIONS_MAX: Final = 100_000
"""How many topics and partitions of a store a broker lets there be."""
QUOTA_USERS_SHOWN_MAX: Final = 100
"""How many users have metrics of their own; the others share one."""
CLIENT_ID_NAMED_SIZE_MAX: Final = 1000
"""How long a client id may be that has a quota."""
BROKER_UNSENT_SIZE_MAX: Final = 4 << 20
"""Answers that a client does not read: above it nothing more is done for it."""
BROKER_HEAP_KEPT_SIZE_MAX: Final = 128 << 20
BROKER_HEAP_STEP_SIZE: Final = 16 << 20
"""How much memory that is free a broker keeps at most, and how much more than it needs it takes at once."""
BROKER_HEAP_LOOK_S: Final = 1.0
BROKER_HEAP_LOOK_S_MAX: Final = 60.0
"""How often it is seen whether it has more than that, and how seldom if nothing came of it."""
LOG_REOPEN_S: Final = 5.0
"""How often a broker tries to reopen logs that take no puts since a sync failed."""
BROKER_STOP_S_MAX: Final = 10.0
BROKER_THREADS: Final = 8
DOOR_THREADS_MAX: Final = 8
"""How many logs are synced at once for those who put to them over the network."""
BROKER_PUTS_WAITING_MAX: Final = 100_000
GROUP_MEMBERS_MAX: Final = 1_000
GROUPS_MAX: Final = 100_000
GROUP_FIRST_JOIN_S: Final = 0.1
"""How long a group that begins waits for more members before it shares out."""
GROUP_SESSION_S_MIN: Final = 0.1
GROUP_SESSION_S_MAX: Final = 1800.0
GROUP_REBALANCE_S_MAX: Final = 3600.0
"""How long members have to join again and to share out, whatever they ask for."""
GROUP_METADATA_SIZE_MAX: Final = 256 << 10
"""What a member of a group may say of itself, all protocols that it knows together."""
GROUP_SIZE_MAX: Final = 4 << 20
"""What all members of a group may say of themselves, and be assigned: four times what Kafka has room for."""
GROUP_MEMBER_SIZE: Final = 1 << 10
SHARE_TAKEN_SIZE: Final = 512
"""About what a member takes besides, and a message that a member of a share group has taken."""
GROUP_NOTE_SIZE_MAX: Final = 4096
"""What a client may note beside a position."""
GROUP_HEARTBEAT_S: Final = 1.0
GROUP_CONSUMER_SESSION_S: Final = 10.0
"""How often members of a consumer group are to be heard of, and after which silence they are gone."""
GROUP_TOPICS_LOOK_S: Final = 1.0
"""How often a consumer group looks for topics and partitions that are new, or gone, while members are heard of."""
GROUP_SUBSCRIPTIONS_MAX: Final = 10_000
GROUP_PATTERN_SIZE_MAX: Final = 1024
"""What a member of a consumer group may subscribe to: names, and the size of a pattern of names."""
SHARE_RECORDS_MAX: Final = 2000
"""How many messages a member of a share group may take at once, whatever it asks for."""
SHARE_TAKEN_FIRST: Final = 16
"""How many are taken first, to see how large messages are."""
SHARE_TAKEN_MAX: Final = 20_000
"""How many messages a member of a share group may have that it has not acknowledged."""
SHARE_LOOK_S: Final = 1.0
"""How often a fetch of a share group that waits looks for messages whose leases ran out."""
CLIENT_ID_SIZE_MAX: Final = 128
"""How much of what a client calls itself goes into the ids that it is given."""
PRODUCERS_REMEMBERED_MAX: Final = 10_000
"""How many producers that number their batches are known again, in each partition."""
OWN_RECORDS_MAX: Final = 4096
"""How many packed records one request or response of our own calls may carry."""
OWN_LIMIT_MAX: Final = 65_536
OWN_ANSWER_SIZE_TARGET: Final = 8 << 20
"""How many messages, and about how many bytes of them, one answer of our own calls holds."""
OWN_TAKEN_FIRST: Final = 16
"""How many messages a worker takes first, so that the broker learns how large they are before it takes more."""
OWN_WAIT_S_MAX: Final = 20.0
"""How long one request of our own calls waits at the broker; clients that wait longer ask again."""
OWN_LOOK_S: Final = 0.5
"""How often a request that waits looks at what no log tells: leases that run out, partitions that change hands."""
OWN_HANDLES_MAX: Final = 10_000
"""How many groups, transactions, producers and queues one client may have open."""
OWN_RETRIED_MAX: Final = 10_000
"""How many repeated appends are remembered, in case the first try arrives later."""
LONE_BODY_SIZE_MAX: Final = 64 << 10
"""Up to this size a message that is put by itself takes a shorter way over the network."""
OWN_LOOK_SHARED_MAX: Final = 20
"""Of how many who wait for the same one looks in that time; more of them look more often."""
OWN_SESSION_S: Final = 10.0
"""For how long a session outlasts its last connection, so that a client whose connection broke finds all it held."""
OWN_ANSWERS_MAX: Final = 2_000
OWN_ANSWERS_STEP: Final = 4 << 10
"""How many answers of a session are kept for calls that are sent again, and in which steps memory is taken for them."""
BATCHING_LINGER_S_DEFAULT: Final = 0.005
BATCHING_SIZE_DEFAULT: Final = 1 << 20
BATCHING_COUNT_MAX: Final = 10_000
BATCHING_BUFFER_SIZE_DEFAULT: Final = 64 << 20
BATCHING_IN_FLIGHT_DEFAULT: Final = 4
BATCHING_IN_FLIGHT_MAX: Final = 64
BATCHING_WAIT_S_DEFAULT: Final = 30.0
"""Puts that are gathered: for how long, in bytes and messages of a batch and of all that wait, how many batches are
under way at once, and how long a put waits for room."""
BATCHING_MESSAGE_SIZE: Final = 64
"""About what a message that waits takes beside its body and key."""
CLIENT_TIMEOUT_S_DEFAULT: Final = 30.0
CLIENT_BACKOFF_S_MIN: Final = 0.02
CLIENT_BACKOFF_S_MAX: Final = 1.0
CLIENT_PROBE_S_MAX: Final = 2.0
"""How long a client that got no answer at first contact waits to learn whether the broker uses TLS."""
CLIENT_CONNECTIONS_KEPT_MAX: Final = 8
"""How many idle connections a client keeps."""
CLIENT_AWAKE_S_MAX: Final = 0.001
"""An answer that came within this time lets the next one be waited for without sleeping, for as long at most."""
AIO_WAITS_MAX: Final = 1_000
"""How many tasks of a client wait at the broker at once, each over a connection of its own; the others wait here."""
TIME_BATCHES_MAX: Final = 1000
TIME_SIZE_MAX: Final = 1 << 20
"""How many batches are looked into for the first message of a time, and how much is read of them at once."""
TIME_LARGEST_BATCHES_MAX: Final = 10_000
"""How many batches are looked at, from the end of a partition back, for the message with the largest time."""
KAFKA_BATCH_COUNT_MAX: Final = 1 << 20
"""Records in a batch of a Kafka client: as many as librdkafka can be told to put there."""
QUICK_SIZE_MAX: Final = 4 << 20
"""What a batch may unpack to where others wait meanwhile; one that unpacks to more is looked into by a thread."""
BATCHES_LOOKED_INTO_FIRST: Final = 2
BATCHES_LOOKED_INTO_EACH: Final = 64
"""The first batches of a connection, and then one of so many, are refused where a record in them cannot be read."""
PRODUCER_IDS_RESERVED: Final = 1000
"""So many ids of producers are reserved on disk at once."""
SEQUENCES_NOTE_BATCHES: Final = 10_000
SEQUENCES_NOTE_SIZE: Final = 256 << 20
"""After so many batches or bytes it is noted what producers have put: what the next start has to look through."""
SEQUENCES_LEARN_SIZE_MAX: Final = 1 << 30
"""How far back a log is looked through for what producers have put where nothing was noted."""
TRANSACTIONAL_IDS_MAX: Final = 100_000
TRANSACTIONAL_IDS_MAX_PER_USER: Final = 10_000
TRANSACTIONAL_ID_S: Final = 7 * 86_400
"""How long a transactional id is known that no producer uses: as long as Kafka knows it."""
TRANSACTIONAL_IDS_LOOK_S: Final = 3600.0
"""How often it is looked for those."""
TRANSACTIONAL_ID_SIZE_MAX: Final = 1000
KAFKA_TRANSACTION_TIMEOUT_S_MAX: Final = 900.0
"""How long a transaction of a Kafka client may be open: Kafka's own limit."""
STANDINGS_LOOK_S: Final = 1.0
"""How often at most it is looked up how topics and groups stand, whoever asks."""
HTTP_HEAD_SIZE_MAX: Final = 32 << 10
"""The first line and the headers of a request over HTTP."""
HTTP_BODY_SIZE_MAX: Final = 4 << 20
"""The body of a request over HTTP, and the largest message that is given over it."""
HTTP_ELEMENTS_MAX: Final = 50_000
"""The most values in the JSON of a request: reading more would keep every other thread waiting."""
HTTP_SCANNED_SIZE_MAX: Final = 64 << 20
"""About how many bytes of bodies a read backwards looks at for those that pass its filter."""
HTTP_ANSWER_SIZE_TARGET: Final = 1 << 20
"""About how many bytes of bodies one answer over HTTP holds."""
HTTP_LIMIT_MAX: Final = 1000
"""How many messages one request over HTTP may put, or ask for."""
HTTP_CONNECTIONS_MAX: Final = 256
HTTP_CONNECTIONS_MAX_PER_ADDRESS: Final = 128
HTTP_SPARE_CONNECTIONS_MAX: Final = 16
"""Places beside the others, in which only questions about health and metrics are answered."""
HTTP_IDLE_S_MAX: Final = 60.0
"""How long a connection over HTTP may take to begin another request."""
HTTP_HEAD_S_MAX: Final = 10.0
"""How long the head of a request may take, from its first byte on, or from the start of the connection on."""
HTTP_RECEIVE_S_MAX: Final = 60.0
HTTP_SEND_S_MAX: Final = 30.0
"""How long the body of a request may take to come, and a client to take an answer."""
HTTP_LINGER_S_MAX: Final = 2.0
"""How long what a client goes on sending is read and forgotten, so that it gets to see why it was refused."""
HTTP_WAIT_S_MAX: Final = 20.0
"""How long a request over HTTP may wait for messages."""
HTTP_SCANNED_MAX: Final = 10_000
"""How many messages a read backwards looks at for those that pass its filter."""
HTTP_LOOP_SIZE_MAX: Final = 16 << 10
"""Up to this size JSON is read on the event loop, and above it by a thread."""
FETCH_SIZE_MAX: Final = 64 << 20
FETCH_WAIT_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Durability:
    """When a put is done: `commit` after its sync, `interval` with a sync `interval_s` later at most, `os` without."""

    mode: Literal["commit", "interval", "os"]
    interval_s: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Durability:
        """`commit`, `os`, or `interval:50ms` (also `interval:2s`)."""
        if text in ("commit", "os"):
            return cls("commit" if text == "commit" else "os")
        found = re.fullmatch(r"interval:(\d+(?:\.\d+)?)(ms|s)", text)
        if found is None:
            raise BadInput(f"durability {text!r}: expected 'commit', 'os' or 'interval:50ms'")
        interval_s = float(found[1]) / (1000 if found[2] == "ms" else 1)
        if not 0 < interval_s <= INTERVAL_S_MAX:
            raise BadInput(f"durability {text!r}: the interval must be above 0 and at most {INTERVAL_S_MAX:g} s")
        return cls("interval", interval_s)
