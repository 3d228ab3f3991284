"""Rooms: folders of a few modules, with an order inside each package that ARCHITECTURE.md shows and imports follow."""

from __future__ import annotations

import ast
from typing import Final

import pytest

from tests.tidy.english import VAGUE_NAMES, VAGUE_TEST_NAMES
from tests.tidy.layers import imports_against_the_order, parse_room_orders
from tests.tidy.rooms import (
    PUBLIC_CLASSES,
    crowded_rooms,
    import_knots,
    lonely_limits,
    participles,
    repeated_class_names,
    rooms_without_a_sign,
    vague_names,
)
from tests.tidy.source import PACKAGE, ROOT, SOURCE, Module, modules

ORDERS: Final = parse_room_orders((ROOT / "ARCHITECTURE.md").read_text())
MODULES: Final = modules(PACKAGE, SOURCE)
OTHERS: Final = [module for folder in ("tests", "benchmarks", "examples") for module in modules(ROOT / folder, ROOT)]
"""The modules of tests, benchmarks and examples."""
EXAMPLE: Final = parse_room_orders("```layers storage\nlog\nread | append\nformat/kafka\nformat\n```\n")["storage"]

CROWDED: Final = {"warren.cli.commands": 23}
"""One module for each command, and there are that many commands."""

ONE_NAME_FOR_EACH_ROOM: Final = ["Call"]
"""Each room of handlers of the broker names the call with the services that the room adds `Call`."""


def test_every_package_that_has_rooms_has_an_order() -> None:
    with_rooms = {module.name.split(".")[1] for module in MODULES if module.is_package and module.name.count(".") > 1}

    assert with_rooms <= {*ORDERS}


@pytest.mark.parametrize("package", ORDERS)
def test_imports_follow_the_order_of_the_rooms(package: str) -> None:
    assert imports_against_the_order(MODULES, package, ORDERS[package]) == []


def test_no_modules_of_a_package_import_each_other_in_a_circle() -> None:
    assert import_knots(MODULES) == []


def test_no_room_is_a_corridor() -> None:
    assert crowded_rooms(MODULES) == CROWDED


def test_a_limit_stands_in_the_only_module_that_enforces_it() -> None:
    assert lonely_limits(MODULES) == []


def test_no_module_is_named_by_a_participle() -> None:
    assert participles(MODULES) == []


def test_every_room_has_a_sign() -> None:
    assert rooms_without_a_sign(MODULES) == []


def test_a_class_name_has_one_meaning() -> None:
    assert repeated_class_names(MODULES) == ONE_NAME_FOR_EACH_ROOM


@pytest.mark.parametrize("package", sorted({module.layer for module in MODULES}))
def test_nothing_is_named_by_how_its_value_was_obtained(package: str) -> None:
    names = vague_names([module for module in MODULES if module.layer == package])

    assert names == []


def test_tests_benchmarks_and_examples_have_no_vague_names() -> None:
    assert vague_names(OTHERS, VAGUE_TEST_NAMES) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("warren.storage.read.lookup", "from warren.storage.log import Log"),
        ("warren.storage.read.lookup", "from warren.storage.append import writer"),
        ("warren.storage.format.layout", "from warren.storage.format.kafka.batch import Batch"),
        (
            "warren.storage.read.lookup",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from warren.storage.log import Log",
        ),
        ("warren.storage.attic.boxes", "import os"),
    ],
)
def test_an_import_against_the_order_is_found(name: str, text: str) -> None:
    others = [Module.of("warren.storage.append.writer", ""), Module.of("warren.storage.format.kafka.batch", "")]

    assert len(imports_against_the_order([Module.of(name, text), *others], "storage", EXAMPLE)) == 1


def test_an_import_that_follows_the_order_is_not_complained_about() -> None:
    text = "from warren.storage.format.layout import HEAD\nfrom warren.storage.read import walk\nimport warren.errors"

    assert imports_against_the_order([Module.of("warren.storage.read.lookup", text)], "storage", EXAMPLE) == []


@pytest.mark.parametrize(
    "text",
    [
        "from warren.queue.two import B",
        "from warren.queue import two",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from warren.queue.two import B",
        "def f():\n    from warren.queue.two import B",
    ],
)
def test_a_circle_of_imports_is_found(text: str) -> None:
    around = [
        Module.of("warren.queue.two", "from warren.queue.three import C"),
        Module.of("warren.queue.three", "from warren.queue.one import A\nfrom warren.queue.four import D"),
        Module.of("warren.queue.four", "import os"),
    ]

    knots = import_knots([Module.of("warren.queue.one", text), *around])

    assert knots == [["warren.queue.one", "warren.queue.three", "warren.queue.two"]]
    assert import_knots([Module.of("warren.queue.one", "import os"), *around]) == []


def test_corridors_participles_and_missing_signs_are_found() -> None:
    crowd = [Module.of(f"warren.storage.m{number}", "") for number in range(19)]
    named = [Module.of("warren.queue.stored", ""), Module.of("warren.queue.routing", "")]
    room = Module.of("warren.queue", '"""No sentence"""', is_package=True)

    assert crowded_rooms([*crowd, *named]) == {"warren.storage": 19}
    assert participles(named) == ["warren.queue.stored"]
    assert rooms_without_a_sign([room]) == ["warren.queue"]


def test_a_limit_that_one_module_uses_is_found() -> None:
    limits = Module.of("warren.queue.limits", "A_MAX: Final = 1\nB_MAX: Final = A_MAX\nC_MAX: Final = 3")
    users = [
        Module.of("warren.queue.one", "from warren.queue.limits import A_MAX, B_MAX, C_MAX"),
        Module.of("warren.queue.two", "from warren.queue.limits import C_MAX"),
    ]

    assert lonely_limits([limits, *users]) == ["warren.queue.limits.B_MAX"]


def test_a_class_name_is_repeated_if_a_package_has_it_twice_or_three_packages_have_it() -> None:
    same_package = [Module.of(f"warren.queue.{name}", "class Kind: ...") for name in ("one", "two")]
    packages = [Module.of(f"warren.{name}.one", "class Entry: ...") for name in ("aio", "queue", "storage")]
    public = [Module.of("warren.aio.one", f"class {name}: ...\nclass {name}: ...") for name in PUBLIC_CLASSES]

    aliases = [Module.of(f"warren.queue.{name}", "Rows = list[int]\nT = TypeVar('T')") for name in ("one", "two")]

    assert repeated_class_names([*same_package, *packages, *public]) == ["Entry", "Kind"]
    assert repeated_class_names(aliases) == ["Rows"]
    assert repeated_class_names([same_package[0], *packages[:2]]) == []


@pytest.mark.parametrize("name", sorted(VAGUE_NAMES))
@pytest.mark.parametrize(
    "text",
    [
        "{} = 1",
        "for {} in (): ...",
        "def f(*, {}): ...",
        "lambda {}: 1",
        "class A:\n    {}: int",
        "self.{} = 1",
        "self._{} = 1",
        "def {}(): ...",
        "async def _{}(): ...",
    ],
)
def test_a_vague_name_is_found(name: str, text: str) -> None:
    assert len(vague_names([Module.of("warren.queue.one", text.format(name))])) == 1
    assert vague_names([Module.of("warren.queue.one", text.format(f"{name}_number"))]) == []


def test_no_package_defines_a_name_that_one_of_its_modules_has() -> None:
    """Importing such a module would replace the function or class by the module."""
    names = {module.name for module in MODULES}
    hidden = [
        f"{package.name}.{node.name}"
        for package in MODULES
        if package.is_package
        for node in package.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and f"{package.name}.{node.name}" in names
    ]

    assert hidden == []
