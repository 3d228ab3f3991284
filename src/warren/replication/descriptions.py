"""What the files and logs of a store are to a person, by their paths."""

from __future__ import annotations


def describe(path: str) -> str:
    """Returns what a file or log of a store is to a person."""
    parts = path.split("/")
    match parts:
        case ["topics", topic]:
            return f"topic {topic}"
        case ["topics", topic, "topic.json"]:
            return f"the settings of topic {topic}"
        case ["topics", topic, partition, "index"] if partition.isdigit():
            return f"partition {partition} of topic {topic}"
        case ["topics", topic, partition, "readers", reader] if partition.isdigit():
            group = reader.removesuffix(".reader")
            return f"the position of group {group} in partition {partition} of topic {topic}"
        case ["topics", topic, partition, *_] if partition.isdigit():
            return f"{parts[-1]} of partition {partition} of topic {topic}"
        case ["topics", topic, "groups", group]:
            return f"group {group} of topic {topic}"
        case ["topics", topic, "groups", group, "group.json"]:
            return f"the settings of group {group} of topic {topic}"
        case ["topics", topic, "groups", group, "ledger", *_]:
            return f"the leases of group {group} of topic {topic}"
        case ["topics", topic, "groups", group, *rest]:
            return f"{'/'.join(rest)} of group {group} of topic {topic}"
        case ["topics", topic, "delayed", *rest]:
            return f"the delayed messages of topic {topic} ({'/'.join(rest)})"
        case ["transactions", "journal", *_]:
            return "the journal of transactions"
        case _:
            return path
