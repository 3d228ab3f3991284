"""The rules of how a module is written: short, with one sentence that says what it is, and named by a noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator
from typing import Final

from tests.tidy.source import Module

MODULE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 60
INLINED: Final = frozenset({"warren.storage.append.append"})
"""Modules in which calls were inlined on purpose, because of a benchmark: one function may be long there."""
GENERATED: Final = frozenset({"warren.protocol.kafka_messages", "warren.protocol.native_messages"})
"""Written by `make messages`: these may be long, because they are read one class at a time and not edited."""
NAMELESS: Final = frozenset({"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"})
MAY_PRINT: Final = frozenset({"cli"})
REPLACES_METHODS: Final = frozenset({"warren.spark.read.batch_reader"})
"""If push-down is switched off, Spark refuses a reader whose class overrides `pushFilters`. So this one assigns it."""
METHOD_ASSIGN: Final = "type: ignore[method-assign"

FORBIDDEN_WORDS: Final = frozenset({"segment", "segments", "chunk", "chunks"})
"""The glossary has one word for each thing, and these are other words for a block and for a batch."""


def missing_docstring(module: Module) -> list[str]:
    """Returns a complaint if `module` has no docstring."""
    return [] if ast.get_docstring(module.tree) else [f"{module.name} has no docstring"]


def too_long(module: Module) -> list[str]:
    """Returns the module, and each of its functions, that is over its limit of lines."""
    if module.name in GENERATED:
        return []
    lines = len(module.text.splitlines())
    complaints = [f"{module.name} has {lines} lines, over {MODULE_LINES_MAX}"] if lines > MODULE_LINES_MAX else []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and module.name not in INLINED:
                complaints.append(f"{module.name}.{node.name} has {lines} lines, over {FUNCTION_LINES_MAX}")
    return complaints


def nameless(module: Module) -> list[str]:
    """Returns a complaint if the module's name says nothing."""
    words = set(module.stem.split("_"))
    return [f"{module.name}: what has no name has no place"] if words & NAMELESS else []


def prints(module: Module) -> list[str]:
    """Returns where `module` prints although it does not talk to the user."""
    if module.layer in MAY_PRINT:
        return []
    return [
        f"{module.name}:{node.lineno} prints"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def clears_before_storing(module: Module) -> list[str]:
    """Returns stores that other processes may see half done: `pack_into` sets every byte to zero before it packs."""
    return [
        f"{module.name}:{node.lineno} packs into memory; assign the packed bytes to a slice of it"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "pack_into"
    ]


def replaced_methods(module: Module, methods: Container[str]) -> list[str]:
    """Returns the methods that `module` replaces by assignment, so that "go to definition" does not lead to what runs.

    `methods` are names that only methods have: `self.name = other.name` then hands out a method of another object.
    """
    if module.name in REPLACES_METHODS:
        return []
    lines = {number for number, line in enumerate(module.text.splitlines(), 1) if METHOD_ASSIGN in line}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            own = dict(_methods(node))
            for target, value in _assigned(node):
                is_same_name = isinstance(value, ast.Attribute) and value.attr == target.attr
                if own.get(target.attr) or (is_same_name and target.attr in methods):
                    lines.add(target.lineno)
    return [f"{module.name}:{line} replaces a method by assignment; write a method" for line in sorted(lines)]


def method_names(modules: Iterable[Module]) -> frozenset[str]:
    """Returns the names of methods that are in no class the name of a property or of a field."""
    callable_names: set[str] = set()
    value_names: set[str] = set()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                for name, is_called in _methods(node):
                    (callable_names if is_called else value_names).add(name)
                fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
                value_names.update(field.id for field in fields if isinstance(field, ast.Name))
    return frozenset(callable_names - value_names)


def _methods(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """Yields the methods of a class, and whether each is called: a property is not."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = [ast.unparse(decorator) for decorator in each.decorator_list]
            yield each.name, not any(name.endswith(("property", ".setter")) for name in decorators)


def _assigned(node: ast.ClassDef) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """Yields each attribute of `self` that a class assigns, and what is assigned."""
    for assign in ast.walk(node):
        if not isinstance(assign, ast.Assign):
            continue
        for target in assign.targets:
            pairs = [(target, assign.value)]
            if isinstance(target, ast.Tuple) and isinstance(assign.value, ast.Tuple):
                pairs = list(zip(target.elts, assign.value.elts, strict=False))
            for left, right in pairs:
                if isinstance(left, ast.Attribute) and isinstance(left.value, ast.Name) and left.value.id == "self":
                    yield left, right


def forbidden_names(module: Module) -> list[str]:
    """Returns the names in `module`, and its docstrings, with a word that the glossary forbids.

    Names of other libraries, such as a method of Arrow, are allowed.
    """
    named = [f"{module.name}:{line} names {name}" for line, name in _given_names(module) if forbidden_words(name)]
    docstrings = [
        f"{module.name} says {word}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for word in forbidden_words(ast.get_docstring(node) or "")
    ]
    return named + docstrings


def forbidden_words(text: str) -> list[str]:
    """Returns the forbidden words in `text`, also as parts of snake_case and CamelCase names."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)
    return [word for word in words if word.lower() in FORBIDDEN_WORDS]


def without_code(words: Iterable[str], modules: Iterable[Module]) -> list[str]:
    """Returns those of `words` that no name in `modules` contains, in the singular or the plural."""
    names = {name for module in modules for _, name in _given_names(module)}
    spelled = "\n".join(" ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)).lower() for name in names)
    return [word for word in words if not re.search(rf"\b{word}s?\b", spelled)]


def _given_names(module: Module) -> Iterator[tuple[int, str]]:
    yield 1, module.name
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
