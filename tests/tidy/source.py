"""The project's files for the tidy checks: parsed, and named as Python names them."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
PACKAGE: Final = SOURCE / "warren"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file. `name` is dotted; a package has its own name, without `__init__`."""

    name: str
    text: str
    is_package: bool = False

    @classmethod
    def of(cls, name: str, text: str, *, is_package: bool = False) -> Module:
        return cls(name=name, text=text, is_package=is_package)

    @property
    def tree(self) -> ast.Module:
        """Parsed at the first call, and not when tests are collected, because every worker collects all of them."""
        return parsed(self.text)

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def layer(self) -> str:
        """The name below `warren`; empty for the package itself."""
        return self.name.split(".")[1] if "." in self.name else ""


@functools.cache
def parsed(text: str) -> ast.Module:
    """Returns the tree of a module. All trees take hundreds of MB, and are dropped after the tests of this folder."""
    return ast.parse(text)


@functools.cache
def modules(folder: Path, root: Path) -> tuple[Module, ...]:
    """Returns every module in `folder`, named from `root`."""
    return tuple(
        Module.of(
            ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"),
            path.read_text(),
            is_package=path.name == "__init__.py",
        )
        for path in sorted(folder.rglob("*.py"))
    )


def imports(module: Module) -> list[tuple[int, str]]:
    """Returns the line and the full dotted name of everything that `module` imports, anywhere in the file."""
    lines: list[tuple[int, str]] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            lines += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            lines += [(node.lineno, f"{source}.{alias.name}") for alias in node.names]
    return lines


def _source(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    parents = package[: len(package) - node.level + 1]
    return ".".join([*parents, node.module] if node.module else parents)
