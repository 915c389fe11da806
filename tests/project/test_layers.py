"""Imports go one way, and `import npu_tensor` stays small."""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path

import networkx
from running import python

import npu_tensor

PACKAGE = Path(npu_tensor.__file__).parent
LINKS = ("benchmarks", "examples", "kernels")
SOURCES = [  # rglob does not follow the links to top-level folders
    path
    for folder in (PACKAGE, *(PACKAGE / link for link in LINKS))
    for path in sorted(folder.rglob("*.py*"))
    if path.suffix != ".pyc"
]

# Lowest layer first. A module may import from lower layers and, inside a sub-package, from its siblings.
# "" is npu_tensor/__init__.py, the public names: only what uses the package as a user does may import it.
LAYERS = (
    ("_util",),
    ("errors", "events"),
    ("config", "dtypes"),
    ("spec",),
    ("ops",),
    ("task",),
    ("dataflow",),
    ("kernels",),
    ("runtime",),
    ("graph",),
    ("planner",),
    ("observe",),
    ("_methods",),
    ("tensor",),
    ("cuda", "linalg"),
    ("functions",),
    ("jit", "masked", "nn", "optim", "signals", "special_names"),
    ("autograd",),
    ("",),
    ("interop",),
    ("torch",),
    ("array_api",),
    ("ggml_hsa", "models"),
    ("authoring",),
    ("examples",),
    ("tools",),
    ("cli",),
    ("benchmarks",),
    ("__main__",),
)
FOR_TYPES_ALONE = {"npu_tensor.ops.registry"}
"""Modules whose imports for type checkers alone may go up: a recorder returns a Tensor."""

RUNTIME_LAYERS = (
    ("dlpack", "memory", "scratch"),
    (
        *("build.headers", "build.process", "build.progress"),
        *("devices.shared_libraries", "devices.system"),
    ),
    ("store",),
    ("rates",),
    ("reference",),
    ("build",),
    ("npu",),
    ("devices.device_kind", "xrt.bindings"),
    ("devices.detect", "devices.discovery"),
    ("cpu",),
    ("sim", "xrt"),
    ("devices.logical",),
    ("cpu.kind", "sim.kind", "xrt.kind"),
    ("devices",),
)
"""The same for the folders of `runtime` and for modules of them that stand lower or higher than the rest. A module may
import from its own layer and from lower ones."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

FOLDERS = {f"npu_tensor.{name}" for name in RANK}
RUNTIME_RANK = {f"npu_tensor.runtime.{name}": rank for rank, names in enumerate(RUNTIME_LAYERS) for name in names}

ALLOWED_AT_IMPORT = {"npu_tensor", "numpy", "networkx", "ml_dtypes", "llvmlite"}
LOADED_WHEN_USED = (
    "array_api",
    "authoring",
    "autograd",
    "cli",
    "ggml_hsa",
    "interop",
    "models",
    "nn",
    "optim",
    "tools",
)
DEFERRED = ("aie", "pyxrt", "torch", "click", "rich", "platformdirs", "filelock")


def top_level_name(module: str) -> str:
    """'npu_tensor.runtime.cpu.cpu_device' -> 'runtime', 'npu_tensor' -> ''."""
    return [*module.split("."), ""][1]


def module_name(path: Path) -> str:
    """Path of a source file -> 'npu_tensor.runtime.cpu.cpu_device'."""
    parts = ("npu_tensor", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = set(map(module_name, SOURCES))


def without_imports_for_types(source: str) -> str:
    """The source without what stands below `if TYPE_CHECKING:` at the top level."""
    tree = ast.parse(source)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
    ]
    return ast.unparse(tree)


def imported_modules(
    source: str, module: str, is_package: bool, modules: Container[str] = FOLDERS
) -> Iterator[tuple[int, str]]:
    """(line, module of npu_tensor) for every import in `source`, also those inside functions.

    modules: names that mean a module where they are imported from a package.
    """
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, *([base] if base else [])])
            # `from npu_tensor import spec` means a module, `from npu_tensor import Tensor` a public name.
            names = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in modules else base for name in names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "npu_tensor")


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    own = top_level_name(module)
    if module in FOR_TYPES_ALONE:
        source = without_imports_for_types(source)
    return [
        f"{module}:{line} imports {name}"
        for line, name in imported_modules(source, module, is_package)
        if top_level_name(name) != own and RANK[top_level_name(name)] >= RANK[own]
    ]


def runtime_rank(module: str) -> int | None:
    """The layer of a module of `runtime`: its own, else that of its folder."""
    return RUNTIME_RANK.get(module, RUNTIME_RANK.get(module.rpartition(".")[0]))


def runtime_violations(source: str, module: str) -> list[str]:
    """The imports from higher layers of `runtime`."""
    own = runtime_rank(module)
    return [
        f"{module}:{line} imports {name}"
        for line, name in imported_modules(source, module, is_package=False, modules=MODULES)
        if own is not None and (runtime_rank(name) or 0) > own
    ]


def circles(imports: "networkx.DiGraph[str]") -> list[set[str]]:
    """Modules that import each other, in one step or several."""
    return [modules for modules in networkx.strongly_connected_components(imports) if len(modules) > 1]


def test_every_module_has_a_layer_and_every_layer_exists() -> None:
    # Stubs (.pyi) count as modules: _methods exists for type checkers only.
    result = {top_level_name(module_name(path)) for path in SOURCES}
    assert result == set(RANK)


def test_imports_go_down() -> None:
    assert [
        each
        for path in SOURCES
        if path.suffix == ".py"
        for each in violations(path.read_text("utf-8"), module_name(path), path.name == "__init__.py")
    ] == []


def test_imports_within_the_runtime_go_down() -> None:
    found = []
    for path in (PACKAGE / "runtime").glob("**/*.py"):
        module = module_name(path)
        assert runtime_rank(module) is not None or path.name == "__init__.py", f"{module} is not in RUNTIME_LAYERS"
        found += runtime_violations(path.read_text("utf-8"), module)
    assert found == []


def test_no_modules_import_each_other() -> None:
    """Late imports included, those for type checkers alone left out."""
    modules = {module_name(path): path for path in SOURCES if path.suffix == ".py"}
    imports = networkx.DiGraph(
        (module, name)
        for module, path in modules.items()
        for _, name in imported_modules(
            without_imports_for_types(path.read_text("utf-8")), module, path.name == "__init__.py", modules
        )
        if name != module
    )
    assert circles(imports) == []
    assert circles(networkx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])) == [{"a", "b", "c"}]


def test_every_package_is_shipped() -> None:
    metadata = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    sources = {module_name(path) for path in SOURCES if path.name == "__init__.py"}
    assert set(metadata["packages"]) == sources | set(metadata["package-dir"])


def modules_after_import() -> set[str]:
    """Return the modules that `import npu_tensor` adds in a fresh process."""
    program = "import sys; before = set(sys.modules); import npu_tensor; print(*set(sys.modules) - before)"
    return set(python("-c", program).stdout.split())


def test_commands_that_list_load_neither_planner_nor_compilers() -> None:
    program = (
        "import sys\n"
        "from npu_tensor.cli import main\n"
        "for arguments in (['config'], ['ops'], ['cache', 'path'], ['--version']):\n"
        "    main(arguments, standalone_mode=False)\n"
        "print('loaded', *sys.modules)"
    )
    loaded = set(python("-c", program).stdout.splitlines()[-1].split())
    assert "npu_tensor.cli.settings" in loaded
    assert loaded.isdisjoint({"networkx", "llvmlite", "npu_tensor.cli.doctor", "npu_tensor.cli.demo", "rich"})


def test_import_pulls_in_the_four_dependencies_only() -> None:
    modules = modules_after_import()
    packages = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    assert packages.isdisjoint(DEFERRED)
    # Compiled parts of the four register names such as _cython_3_0 or __mp_main__.
    assert {name for name in packages if not name.startswith("_")} <= ALLOWED_AT_IMPORT
    assert modules.isdisjoint({f"npu_tensor.{name}" for name in LOADED_WHEN_USED})


ROLES = re.compile(r"kernels/\w+/(cost|design|source|tiling)\.py|runtime/\w+/kind\.py|.*__(init|main)__\.py")
"""Files that do the same for a family of kernels, a kind of devices or a package."""


NAMED_BY_PYTORCH = ("Module", "Parameter")
"""Classes of nn, whose names other libraries have given to other things, too: a loaded kernel, a number of an op."""


def test_a_name_means_one_thing() -> None:
    others = ("benchmarks", "examples")
    shipped = [path for path in SOURCES if path.suffix == ".py" and top_level_name(module_name(path)) not in others]
    files = Counter(path.name for path in shipped if not ROLES.fullmatch(str(path.relative_to(PACKAGE))))
    assert [name for name, count in files.items() if count > 1] == []
    classes = Counter(
        node.name
        for path in shipped
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1 and name not in NAMED_BY_PYTORCH] == []
