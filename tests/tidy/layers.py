"""The rules of which module may import which, and of what a module may do while it is imported."""

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

PACKERS: Final = frozenset({"warren.storage.format.layout", "warren.protocol.primitives"})
PACKING: Final = frozenset({"Struct", "pack", "pack_into", "unpack", "unpack_from", "iter_unpack"})

TLS_CONTEXTS: Final = frozenset({"warren.tls", "warren.broker.security.tls"})
"""One module makes the contexts of clients, and one those of servers, so that both are equally strict everywhere."""
MAKES_CONTEXT: Final = frozenset(
    {"ssl.SSLContext", "ssl.create_default_context", "SSLContext", "create_default_context"}
)
FORMAT_VERSIONS: Final = (1, 2)

MUTABLE_CALLS: Final = frozenset(
    {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict", "WeakValueDictionary"}
)
MUTABLE_LITERALS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def parse_layers(document: str) -> Layers:
    """Returns the lines of the document's `layers` block, from the top down."""
    block = re.search(r"^```layers\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
    assert block is not None, "the document has no ```layers block"
    return [frozenset(name.strip() for name in line.split("|")) for line in block[1].splitlines()]


def parse_room_orders(document: str) -> Mapping[str, Layers]:
    """Returns the order of the rooms inside each package: the blocks that name a package, as in `layers storage`."""
    blocks = re.findall(r"^```layers (\w+)\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
    return {
        package: [frozenset(name.strip() for name in line.split("|")) for line in block.splitlines()]
        for package, block in blocks
    }


def room_of(name: str, height: Mapping[str, float]) -> str:
    """Returns the room or the single module below its package that a dotted module name belongs to.

    A room inside a room, such as `kafka/groups`, counts by itself if the order names it.
    """
    parts = name.split(".")[2:]
    inner = "/".join(parts[:2])
    return inner if inner in height else parts[0]


def imports_against_the_order(modules: Sequence[Module], package: str, layers: Layers) -> list[str]:
    """Returns what modules of `package` import from a room that is not below their own. Imports for types count."""
    height = {name: float(len(layers) - depth) for depth, line in enumerate(layers) for name in line}
    names = {module.name for module in modules}
    start = f"warren.{package}."
    wrong = []
    for module in modules:
        if not module.name.startswith(start):
            continue
        room = room_of(module.name, height)
        if room not in height:
            wrong.append(f"{module.name}: {room} is in no line of the order of {package}")
            continue
        for line, target in imports(module):
            imported = target if target in names else target.rpartition(".")[0]
            if not imported.startswith(start):
                continue
            other = room_of(imported, height)
            if other != room and height.get(other, 0.0) >= height[room]:
                wrong.append(f"{module.name}:{line} imports {target}, which is not below {room}")
    return wrong


def upward_imports(module: Module, layers: Layers) -> list[str]:
    """Returns what `module` imports from its own line of the layers (other than itself) or from above.

    The package `warren` itself is above all layers but those of the first line, and `python -m warren` above all.
    """
    height = {name: len(layers) - depth for depth, line in enumerate(layers) for name in line}
    if module.layer in ("", "__main__"):
        return []
    if module.layer not in height:
        return [f"{module.name}: {module.layer} is in no line of the layers"]
    complaints = []
    for line, target in imports(module):
        top, _, rest = target.partition(".")
        layer = rest.partition(".")[0]
        if top != "warren" or layer == module.layer:
            continue
        if height.get(layer, len(layers) - 0.5) >= height[module.layer]:
            complaints.append(f"{module.name}:{line} imports {target}, which is not below {module.layer}")
    return complaints


def misplaced_imports(module: Module) -> list[str]:
    """Returns what `module` imports although only other modules may."""
    complaints = []
    for line, target in imports(module):
        top = target.partition(".")[0]
        home = ONLY_IN.get(top)
        if home and module.name != home and not module.name.startswith(f"{home}."):
            complaints.append(f"{module.name}:{line} imports {top}, which only {home} may")
        if top in NETWORK and module.layer in WITHOUT_NETWORK:
            complaints.append(f"{module.name}:{line} imports {top}, but {module.layer} does no network I/O")
    return complaints


def misplaced_packing(module: Module) -> list[str]:
    """Returns where `module` lays out bytes although it is not one of the two that do.

    Naming the type of a layout is allowed.
    """
    if module.name in PACKERS:
        return []
    imported = {target.removeprefix("struct.") for _, target in imports(module) if target.startswith("struct.")}
    packing = {f"struct.{name}" for name in PACKING} | PACKING & imported
    return [
        f"{module.name}:{node.lineno} packs bytes; {', '.join(sorted(PACKERS))} do"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in packing
    ]


def misplaced_tls(module: Module) -> list[str]:
    """Returns the lines on which `module` makes a TLS context although it is not one of TLS_CONTEXTS."""
    if module.name in TLS_CONTEXTS:
        return []
    return [
        f"{module.name}:{node.lineno} makes a TLS context; {', '.join(sorted(TLS_CONTEXTS))} do"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in MAKES_CONTEXT
    ]


def version_branches(module: Module) -> list[str]:
    """Lists where `module`, outside `storage`, decides by a format version instead of by the features of the log."""
    if module.layer == "storage":
        return []
    branches = [
        f"{module.name}:{node.lineno} asks for a format version: ask `log.format` what it can do"
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Compare) and _compares_version(node))
        or (isinstance(node, ast.Subscript) and ast.unparse(node).startswith("FORMATS[") and _is_version(node.slice))
    ]
    return branches + [f"{module.name} uses a version's own module" for _, used in imports(module) if "zbus" in used]


def _compares_version(node: ast.Compare) -> bool:
    operands = [node.left, *node.comparators]
    is_version = any(ast.unparse(each).rpartition(".")[2].endswith("version") for each in operands)
    return is_version and any(map(_is_version, operands))


def _is_version(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(map(_is_version, node.elts))
    return isinstance(node, ast.Constant) and node.value in FORMAT_VERSIONS


def module_state(module: Module) -> list[str]:
    """Returns names at module level that hold something mutable, except tables: `UPPER_CASE: Final`."""
    complaints = [
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
            complaints.append(f"{module.name}:{node.lineno} keeps mutable state in {', '.join(names)}")
    return complaints


def environment_reads(module: Module) -> list[str]:
    """Returns where `module` reads the environment while it is imported."""
    complaints = []
    for node in _run_at_import(module.tree):
        is_attribute = isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}
        is_name = isinstance(node, ast.Name) and node.id in {"environ", "getenv"}
        if is_attribute or is_name:
            complaints.append(f"{module.name}:{node.lineno} reads the environment when imported")
    return complaints


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in MUTABLE_CALLS
    return isinstance(value, MUTABLE_LITERALS)


def _run_at_import(node: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions below `node` that run when it does: not the bodies of functions, but their defaults."""
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
