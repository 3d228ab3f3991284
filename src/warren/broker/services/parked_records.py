"""Puts a batch of a Kafka client that was split by delay, as part of a transaction."""

from __future__ import annotations

from warren.errors import BadInput, BadRecord
from warren.protocol.kafka.delayed_records import Split
from warren.queue.topic import Topic
from warren.transaction.transaction import Transaction


def put_split(transaction: Transaction, topic: Topic, partition: int, split: Split) -> None:
    """Parks the delayed records, and puts the others, when the transaction is committed."""
    for batch in split.rest:
        transaction.put_kafka(topic, batch, partition=partition)
    for message, due_us in split.delayed:
        try:
            transaction.put(
                topic,
                message.body,
                key=message.key,
                tag=message.tag,
                headers=message.headers,
                id=message.id,
                corr_offset=message.corr_offset,
                partition=partition,
                deliver_at=due_us,
            )
        except BadInput as error:
            raise BadRecord(message.number, str(error)) from error
