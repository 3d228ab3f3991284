"""The rules of rooms: how many modules a folder has, its sentence about what belongs there, and names in it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final

from tests.tidy.english import VAGUE_NAMES
from tests.tidy.source import Module, imports

MODULES_MAX: Final = 18
"""A folder with more modules than this is hard to survey."""
PARTICIPLES: Final = ("ing", "ed")
NOUNS: Final = frozenset(
    {"routing", "batching", "packing", "listing", "housekeeping", "staging", "sharing", "shipping", "tuning", "ping"}
)
"""Words that end like a participle but are nouns."""
COMMANDS: Final = "warren.cli.commands."
"""A module here has the name of its command."""
SAME_CLASS_NAMES_MAX: Final = 2
"""How many classes of the package `warren` may have the same name, in different packages below it."""
PUBLIC_CLASSES: Final = frozenset(
    {"Batching", "Broadcast", "Log", "QueueGroup", "Store", "StreamGroup", "Topic", "Transaction"}
)
"""Names that users know. The contract and the objects that keep it, embedded and asyncio, have the same name."""

PUBLIC_ATTRIBUTES: Final = frozenset(
    {
        ("warren.errors.root", "given"),
        ("warren.errors.spark", "wanted"),
    }
)
"""Facts of public errors, by module. Users may read them, so they keep their names."""
CAMEL_CASE: Final = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")


def crowded_rooms(modules: Sequence[Module]) -> Mapping[str, int]:
    """Returns the packages that hold more than MODULES_MAX modules themselves, and how many they hold."""
    counts = Counter(module.name.rpartition(".")[0] for module in modules if not module.is_package)
    return {name: count for name, count in counts.items() if count > MODULES_MAX}


def participles(modules: Sequence[Module]) -> list[str]:
    """Returns the modules whose name ends in a participle, as `taking` and `stored` do."""
    return [
        module.name
        for module in modules
        if not module.is_package
        and (word := module.stem.rpartition("_")[2]).endswith(PARTICIPLES)
        and word not in NOUNS
        and not module.name.startswith(COMMANDS)
    ]


def rooms_without_a_sign(modules: Sequence[Module]) -> list[str]:
    """Returns the packages whose docstring does not start with one sentence that says what belongs there."""
    return [module.name for module in modules if module.is_package and not _first_line(module).endswith(".")]


def lonely_limits(modules: Sequence[Module]) -> list[str]:
    """Returns the constants of modules named `limits` that fewer than two modules use, and not their own module."""
    used = Counter(
        (target.rpartition(".")[0], target.rpartition(".")[2]) for module in modules for _, target in imports(module)
    )
    lonely = []
    for module in modules:
        if module.stem == "limits":
            names = [node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name)]
            constants = [
                node.target.id
                for node in module.tree.body
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            ]
            lonely += [
                f"{module.name}.{name}" for name in constants if used[module.name, name] < 2 and names.count(name) == 1
            ]
    return lonely


def import_knots(modules: Sequence[Module]) -> list[list[str]]:
    """Returns the groups of modules of one package of `warren` that import each other in a circle, sorted.

    Imports for types and imports inside functions count. A package's `__init__`, which gathers names, does not.
    """
    names = {module.name for module in modules if not module.is_package}
    imported: dict[str, set[str]] = {}
    for module in modules:
        if module.name in names:
            targets = {target if target in names else target.rpartition(".")[0] for _, target in imports(module)}
            imported[module.name] = {name for name in targets & names if name.split(".")[1] == module.layer}
    reached = {name: _reached_from(name, imported) for name in imported}
    circles = {tuple(sorted(each for each in reached[name] if name in reached[each])) for name in imported}
    return sorted(list(circle) for circle in circles if len(circle) > 1)


def _reached_from(name: str, imported: Mapping[str, set[str]]) -> set[str]:
    """Returns the modules that `name` imports, those that they import, and so on."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        added = imported[waiting.pop()] - reached
        reached |= added
        waiting += added
    return reached


def repeated_class_names(modules: Sequence[Module]) -> list[str]:
    """Returns the class names that one package defines twice, or that there are more than SAME_CLASS_NAMES_MAX of.

    A name that a module gives to a type, as in `Rows = list[Row]`, counts like a class. Types of the parameters of a
    command do not: they are used in its module only.
    """
    packages: dict[str, list[str]] = {}
    for module in modules:
        classes = [node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
        aliases = [] if module.name.startswith(COMMANDS) else _type_aliases(module)
        for name in [*classes, *aliases]:
            if name not in PUBLIC_CLASSES:
                packages.setdefault(name, []).append(module.layer)
    return sorted(
        name for name, layers in packages.items() if len(layers) > SAME_CLASS_NAMES_MAX or len({*layers}) < len(layers)
    )


def _type_aliases(module: Module) -> list[str]:
    """Returns the names in CamelCase that a module assigns at its top level, except type variables."""
    aliases = []
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec"))):
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                aliases += [name] if CAMEL_CASE.fullmatch(name) else []
    return aliases


def vague_names(modules: Sequence[Module], vague: Set[str] = VAGUE_NAMES) -> list[str]:
    """Returns, as `module:line name`, every name that is one of `vague`, with or without a leading underscore.

    Variables, fields, parameters, attributes and functions count.
    """
    return [
        f"{module.name}:{line} {name}"
        for module in modules
        for line, name in map(_bound_name, ast.walk(module.tree))
        if name.lstrip("_") in vague and (module.name, name) not in PUBLIC_ATTRIBUTES
    ]


def _bound_name(node: ast.AST) -> tuple[int, str]:
    """Returns the line and the name that a node binds; an empty name if it binds none."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.lineno, node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.lineno, node.attr
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.lineno, node.name
    if isinstance(node, ast.arg):
        return node.lineno, node.arg
    return 0, ""


def _first_line(module: Module) -> str:
    return (ast.get_docstring(module.tree) or "").partition("\n")[0]
