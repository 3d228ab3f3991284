"""Archives as tables and as JSON: their content, the result of a run, and the result of a verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.text import Text

from warren.cli.output.tables import size_text, table, time_text, write_json

if TYPE_CHECKING:
    # For types only: these modules import PyArrow, which takes longer than most commands.
    from warren.spark.archive.manifest import Manifest
    from warren.spark.archive.retire import Retired
    from warren.spark.archive.run import Archived
    from warren.spark.archive.verification import Verification


def manifest_table(manifest: Manifest, archive: str) -> RenderableType:
    """Returns the content of an archive by partition."""
    rows = table(f"Archive {archive}")
    for name in ("topic", "partition", "messages", "first", "files", "size", "newest (UTC)"):
        rows.add_column(name, justify="left" if name in ("topic", "newest (UTC)") else "right", no_wrap=True)
    for fact in manifest_facts(manifest):
        rows.add_row(
            Text(fact["topic"]),
            *(f"{fact[name]:,}" for name in ("partition", "messages", "first", "files")),
            size_text(fact["size"]),
            time_text(fact["last_timestamp"]),
        )
    return rows


def manifest_facts(manifest: Manifest) -> list[dict[str, Any]]:
    """Returns the facts of each partition of an archive, by name."""
    facts = []
    for topic, partition in sorted(manifest.ends()):
        files = manifest.of(topic, partition)
        facts.append(
            {
                "topic": topic,
                "partition": partition,
                "messages": sum(file.count for file in files),
                "first": files[0].first,
                "end": files[-1].end,
                "files": len(files),
                "size": sum(file.size for file in files),
                "first_timestamp": files[0].first_timestamp,
                "last_timestamp": files[-1].last_timestamp,
            }
        )
    return facts


def show_run(
    archived: Archived, checked: Verification | None, retired: list[Retired] | None, archive: str, *, is_json: bool
) -> None:
    """Shows the result of a run."""
    if is_json:
        write_json(
            {
                "manifest": archived.number,
                "messages": archived.count,
                "size": archived.size,
                "seconds": round(archived.seconds, 3),
                "files": [file.to_json() for file in archived.files],
                **({} if checked is None else {"verification": verification_json(checked)}),
                **({} if retired is None else {"retired": [partition._asdict() for partition in retired]}),
            }
        )
        return
    console = Console(highlight=False)
    rate = archived.count / max(archived.seconds, 1e-9)
    console.print(
        f"{archived.count:,} messages archived to {archive} in {archived.seconds:.1f} s ({rate:,.0f}/s): "
        f"{len(archived.files)} {'file' if len(archived.files) == 1 else 'files'}, {size_text(archived.size)}"
        if archived.files
        else f"nothing new: {archive} already has every message",
        soft_wrap=True,
    )
    for each in [] if checked is None else verification_tables(checked):
        console.print(each)
    if retired:
        console.print(_retired_table(retired))


def verification_json(checked: Verification) -> dict[str, Any]:
    """Returns the result of a verification as JSON."""
    return {
        "manifest": checked.number,
        "good": checked.is_good,
        "partitions": [
            {
                "topic": part.topic,
                "partition": part.partition,
                "messages": part.messages,
                "first": part.first,
                "end": part.end,
                "files": part.files,
                "size": part.size,
                "compared": part.compared,
                "verified_end": part.verified_end,
            }
            for part in checked.partitions
        ],
        "findings": [finding._asdict() for finding in checked.findings],
    }


def verification_tables(checked: Verification) -> list[RenderableType]:
    """Returns the result of a verification as tables: the partitions, and every difference."""
    rows = table("Verified")
    for name in ("topic", "partition", "messages", "first", "files", "size", "in the log", ""):
        rows.add_column(name, justify="left" if name in ("topic", "") else "right", no_wrap=True)
    for part in checked.partitions:
        rows.add_row(
            Text(part.topic),
            *(f"{value:,}" for value in (part.partition, part.messages, part.first, part.files)),
            size_text(part.size),
            f"{part.compared:,}",
            Text("wrong", style="red") if part.findings else Text("good", style="green"),
        )
    if checked.is_good:
        return [rows]
    wrong = table("Differences")
    wrong.add_column("messages", no_wrap=True)
    wrong.add_column("what", overflow="fold")
    wrong.add_column("file", overflow="fold")
    for finding in checked.findings:
        place = f"{finding.topic} {finding.partition}:{finding.first}–{finding.end - 1}"
        wrong.add_row(Text(place), Text(finding.reason, style="red"), Text(finding.path))
    return [rows, "", wrong]


def _retired_table(retired: list[Retired]) -> RenderableType:
    rows = table("Retired from the log")
    for name in ("topic", "partition", "verified up to", "log began at", "log begins at", "held by"):
        rows.add_column(name, justify="left" if name in ("topic", "held by") else "right", no_wrap=True)
    for partition in retired:
        numbers = (partition.partition, partition.verified_end, partition.was_first, partition.first)
        rows.add_row(Text(partition.topic), *(f"{number:,}" for number in numbers), Text(partition.held_by))
    return rows
