"""`warren pipeline …`: run, check or submit a pipeline file."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from warren.cli.options.environment import STORE_VARIABLE
from warren.cli.options.store_option import AsJson, require_store
from warren.cli.output.pipeline_watch import JsonLines, Line
from warren.cli.output.tables import table, write_json
from warren.cli.running.errors import FailureGroup
from warren.cli.running.job import ConfOption, MasterOption, spark_settings
from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.location import location_of

app = typer.Typer(
    cls=FailureGroup, help="Run pipelines: from topics, through Spark, to topics and files.", no_args_is_help=True
)

EXIT_INTERRUPTED: Final = 130
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.", show_default=False)]
TriggerOption = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Replaces the file's trigger: available-now, continuous, or '10 seconds'."),
]
PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        "-s",
        metavar="DIRECTORY",
        envvar=STORE_VARIABLE,
        help="The directory of the store; without it the file's, or `data`.",
    ),
]


@app.command()
def run(
    file: FileArgument,
    master: MasterOption = None,
    trigger: TriggerOption = None,
    conf: ConfOption = None,
    is_json: Annotated[
        bool, typer.Option("--json", help="Write the progress of each batch as a line of JSON.")
    ] = False,
    store: PlaceOption = None,
) -> None:
    """Run a pipeline: once over all messages, or until it is stopped, as its trigger says.

    Ctrl-C or SIGTERM stops it after the running batch, and a second one immediately. Nothing is lost or written twice
    in either case: the next run continues where this one stopped.
    """
    definition = Definition.read(file).triggered(trigger)
    directory = location_of(definition, store).directory
    if directory is not None:
        require_store(directory)
    settings = spark_settings(conf)
    import warren.spark
    from warren.spark.pipelines.run import silence, start
    from warren.spark.pipelines.watch import attend

    console = Console(stderr=True, highlight=False, quiet=is_json)
    with console.status("starting Spark"):
        session = warren.spark.session(f"warren pipeline {definition.name}", master, settings)
    try:
        silence(session)
        with console.status(f"starting {definition.name}"):
            running = start(session, definition, store=store)
        with JsonLines(definition.name) if is_json else Line(definition.name, console) as watch:
            is_done = attend(running, watch)
        watch.finish("done" if is_done else "stopped")
    finally:
        session.stop()
    if not is_done and not definition.is_endless:
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command()
def check(file: FileArgument, is_json: AsJson = False, store: PlaceOption = None) -> None:
    """Check a pipeline file, without Spark, and show what it would do."""
    definition = Definition.read(file)
    facts = _facts(definition, store)
    if is_json:
        write_json(facts)
        return
    rows = table(f"Pipeline {definition.name}")
    rows.show_header = False
    for name, fact in facts.items():
        rows.add_row(name, Text("\n".join(fact) if isinstance(fact, list) else str(fact)))
    Console(highlight=False).print(rows)


@app.command()
def submit(
    file: FileArgument,
    master: Annotated[str, typer.Option(metavar="URL", help="The cluster, such as spark://host:7077, yarn or k8s://…")],
    deploy_mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="client: the driver runs here. cluster: it runs there.")
    ] = None,
    trigger: TriggerOption = None,
    conf: ConfOption = None,
    is_printed: Annotated[bool, typer.Option("--print", help="Print the command and do not run it.")] = False,
    store: PlaceOption = None,
) -> None:
    """Run a pipeline on a cluster with spark-submit, which ships Warren, the file and its modules.

    Every machine of the cluster must see the store under the same path.
    """
    definition = Definition.read(file).triggered(trigger)
    import warren.spark
    from warren.spark.pipelines.submit import submission

    location = location_of(definition, store)
    command = submission(definition, master, location=location, deploy_mode=deploy_mode, conf=spark_settings(conf))
    if is_printed:
        typer.echo(shlex.join(command))
        return
    Console(stderr=True, highlight=False).print(Text(shlex.join(command), style="dim"), soft_wrap=True)
    warren.spark.use_java()
    if deploy_mode != "cluster":
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.execv(command[0], command)


def _facts(definition: Definition, store: str | None) -> dict[str, Any]:
    source, sink = definition.source, definition.sink
    location = location_of(definition, store)
    target = next(name for name in ("topic", "parquet", "table", "console") if getattr(sink, name))
    value = getattr(sink, target)
    return {
        "file": definition.file,
        "store": location.store_name,
        "checkpoint": location.checkpoint(definition),
        "trigger": definition.pipeline.trigger,
        "reads": f"{', '.join(source.topics) or source.topics_pattern}, as {source.format}, from {source.starting}",
        "group": definition.group or "none",
        "steps": [_step_text(step) for step in definition.steps],
        "writes": target if value is True else f"{target} {value}",
    }


def _step_text(step: Any) -> str:
    action = next((name for name in ("sql", "dedupe", "python", "dead_letter") if getattr(step, name)), "watermark")
    value = getattr(step, action)
    text = value if isinstance(value, str) else (":" if action == "python" else ", ").join(value)
    return f"{action}: {' '.join(text.split())}"
