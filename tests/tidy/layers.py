"""The rules of who may import what, and of what a module may do while it is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tests.tidy.source import Module, imports

Layers = Sequence[frozenset[str]]

WITHOUT_NETWORK: Final = frozenset({"storage", "queue", "protocol"})
NETWORK: Final = frozenset({"asyncio", "socket", "socketserver", "ssl", "selectors"})

ONLY_IN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pyspark": "warren.spark",
        "kazoo": "warren.registry.zookeeper",
        "time": "warren.clock",
        "kafka": "warren.protocol",
        "kio": "warren.protocol",
        "aiokafka": "warren.protocol",
    }
)

PACKERS: Final = frozenset({"warren.storage.layout", "warren.protocol.codec"})
PACKING: Final = frozenset({"Struct", "pack", "pack_into", "unpack", "unpack_from", "iter_unpack"})

MUTABLE_CALLS: Final = frozenset(
    {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict", "WeakValueDictionary"}
)
MUTABLE_LITERALS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def parse_layers(document: str) -> Layers:
    """The lines of the document's `layers` block, from the top down."""
    block = re.search(r"^```layers\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
    assert block is not None, "the document has no ```layers block"
    return [frozenset(name.strip() for name in line.split("|")) for line in block[1].splitlines()]


def upward_imports(module: Module, layers: Layers) -> list[str]:
    """What `module` imports from its own line of the layers (other than itself) or from above.

    The package `warren` itself stands above all layers but those of the first line, and `python -m warren` above all.
    """
    height = {name: len(layers) - depth for depth, line in enumerate(layers) for name in line}
    if module.layer in ("", "__main__"):
        return []
    if module.layer not in height:
        return [f"{module.name}: {module.layer} is in no line of the layers"]
    found = []
    for line, target in imports(module):
        top, _, rest = target.partition(".")
        layer = rest.partition(".")[0]
        if top != "warren" or layer == module.layer:
            continue
        if height.get(layer, len(layers) - 0.5) >= height[module.layer]:
            found.append(f"{module.name}:{line} imports {target}, which is not below {module.layer}")
    return found


def misplaced_imports(module: Module) -> list[str]:
    """What `module` imports although only other modules may."""
    found = []
    for line, target in imports(module):
        top = target.partition(".")[0]
        home = ONLY_IN.get(top)
        if home and module.name != home and not module.name.startswith(f"{home}."):
            found.append(f"{module.name}:{line} imports {top}, which only {home} may")
        if top in NETWORK and module.layer in WITHOUT_NETWORK:
            found.append(f"{module.name}:{line} imports {top}, but {module.layer} does no network I/O")
    return found


def misplaced_packing(module: Module) -> list[str]:
    """Where `module` lays out bytes although it is not one of the two that do. Naming the type of a layout is free."""
    if module.name in PACKERS:
        return []
    imported = {target.removeprefix("struct.") for _, target in imports(module) if target.startswith("struct.")}
    packing = {f"struct.{name}" for name in PACKING} | PACKING & imported
    return [
        f"{module.name}:{node.lineno} packs bytes; {', '.join(sorted(PACKERS))} do"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in packing
    ]


def module_state(module: Module) -> list[str]:
    """Names at module level that hold something mutable, except tables: `UPPER_CASE: Final`."""
    found = [
        f"{module.name}:{node.lineno} changes a name of the module from within a function"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Global)
    ]
    for node in module.tree.body:
        if isinstance(node, ast.Assign):
            targets, value, is_final = node.targets, node.value, False
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value, is_final = [node.target], node.value, "Final" in ast.unparse(node.annotation)
        else:
            continue
        names = [ast.unparse(target) for target in targets]
        is_table = is_final and all(name == name.upper() for name in names)
        if _is_mutable(value) and not is_table and names != ["__all__"]:
            found.append(f"{module.name}:{node.lineno} keeps mutable state in {', '.join(names)}")
    return found


def environment_reads(module: Module) -> list[str]:
    """Where `module` looks at the environment while it is imported."""
    found = []
    for node in _run_at_import(module.tree):
        is_attribute = isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}
        is_name = isinstance(node, ast.Name) and node.id in {"environ", "getenv"}
        if is_attribute or is_name:
            found.append(f"{module.name}:{node.lineno} reads the environment when imported")
    return found


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in MUTABLE_CALLS
    return isinstance(value, MUTABLE_LITERALS)


def _run_at_import(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions below `node` that run when it does: not the bodies of functions, but their defaults."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in [*child.decorator_list, child.args]:
                yield from _run_at_import(ast.Expr(part) if isinstance(part, ast.expr) else part)
        elif isinstance(child, ast.Lambda):
            yield from _run_at_import(child.args)
        else:
            if isinstance(child, ast.expr):
                yield child
            yield from _run_at_import(child)
