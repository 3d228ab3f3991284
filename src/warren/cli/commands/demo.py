"""`warren demo`: runs the demo of `examples/demo`, which a wheel has as `warren.examples.demo`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Final

import typer

from warren.cli.options.store_option import AsJson

PROGRAM: Final = "warren.examples.demo.run"
"""Imported by name when the command runs: an example is not part of the library, so nothing else depends on it."""
ORDERS_DEFAULT: Final = 1_000_000
DIRECTORY_DEFAULT: Final = "warren-demo"


def demo(
    orders: Annotated[int, typer.Option(min=1, help="How many orders to write.")] = ORDERS_DEFAULT,
    directory: Annotated[
        str,
        typer.Option("--dir", metavar="DIRECTORY", help="Where store, archive and chart go; replaced if it exists."),
    ] = DIRECTORY_DEFAULT,
    is_json: AsJson = False,
) -> None:
    """Write orders to a new store, compute revenue and an archive on Spark, and show the results."""
    import_module(PROGRAM).main(orders, directory, is_json=is_json)
