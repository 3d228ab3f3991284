"""The project's files as the tidy checks see them: parsed, and named as Python names them."""

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
    """One Python file. `name` is dotted; a package goes by its own name, without `__init__`."""

    name: str
    text: str
    tree: ast.Module
    is_package: bool = False

    @classmethod
    def of(cls, name: str, text: str, *, is_package: bool = False) -> Module:
        return cls(name=name, text=text, tree=ast.parse(text), is_package=is_package)

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def layer(self) -> str:
        """The name below `warren`; empty for the package itself."""
        return self.name.split(".")[1] if "." in self.name else ""


@functools.cache
def modules(folder: Path, root: Path) -> tuple[Module, ...]:
    """Returns every module in `folder`, named from `root`. They are parsed once for all tests of a process."""
    return tuple(
        Module.of(
            ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"),
            path.read_text(),
            is_package=path.name == "__init__.py",
        )
        for path in sorted(folder.rglob("*.py"))
    )


def imports(module: Module) -> list[tuple[int, str]]:
    """The line and the full dotted name of everything that `module` imports, wherever in the file it does."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            found += [(node.lineno, f"{source}.{alias.name}") for alias in node.names]
    return found


def _source(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    parents = package[: len(package) - node.level + 1]
    return ".".join([*parents, node.module] if node.module else parents)
