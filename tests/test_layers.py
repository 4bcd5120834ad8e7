"""The house is kept: imports go one way, optional packages stay optional, files and functions stay short."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import gaussian_transform

PACKAGE = "gaussian_transform"
ROOT = Path(gaussian_transform.__file__).parent

# Each room knows only those before it.
LAYERS = [
    "_typing", "_version", "_parallel", "_blas", "_kernels", "_validation", "_factors", "_pairs", "_shapes", "bures",
    "_candidates", "distances", "local_gaussians",
    "metrics", "mds", "spanning_tree", "linkage", "neighborhoods", "row_sweep", "propagation", "profiles", "iteration",
    "wasserstein", "estimators",
]  # fmt: skip
# Beside them: these know only the types, and none of the layers knows them.
LEAVES = ["datasets", "io", "plotting"]
# On top: these may know everything.
TOP = ["", "cli"]

REQUIRED = {"numpy", "scipy", "sklearn", "threadpoolctl", "numba", "click", "rich"}  # scikit-learn brings threadpoolctl
OPTIONAL = {"matplotlib", "mpl_toolkits", "pyarrow"}

MOST_LINES = 450
MOST_FUNCTION_LINES = 45  # without the docstring


class Import(NamedTuple):
    """An import in a module of ours: of what, and whether it happens when the module is imported."""

    module: str  # of ours, without the package's name; "" for the package itself
    target: str
    is_ours: bool
    is_at_import: bool
    is_for_types: bool


FILES = sorted(ROOT.rglob("*.py"))


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in FILES}


def targets(node, module):
    """Return what an import statement imports, modules of ours by their full names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, f"{module}: imports are absolute here"
    inside = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if name.removeprefix(f"{PACKAGE}.") in MODULES else node.module for name in inside]


def imports_of(path):
    """Yield all imports of a file, those in functions too."""
    module = module_name(path)

    def walk(node, is_at_import, is_for_types):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for target in targets(child, module):
                    is_ours = target.split(".")[0] == PACKAGE
                    name = target.removeprefix(PACKAGE).removeprefix(".") if is_ours else target
                    yield Import(module, name, is_ours, is_at_import, is_for_types)
            else:
                in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
                yield from walk(child, is_at_import and not in_function, is_for_types or for_types)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), True, False)


IMPORTS = [found for path in FILES for found in imports_of(path)]
OURS = [found for found in IMPORTS if found.is_ours]
THEIRS = [found for found in IMPORTS if not found.is_ours]


def room(module):
    return module.split(".")[0]


def test_every_module_has_its_place():
    """A new room has to be given one here."""
    places = [*LAYERS, *LEAVES, *TOP]
    assert len(set(places)) == len(places)
    assert {room(module) for module in MODULES} == set(places)


def test_imports_are_found():
    """The tests below would pass on nothing."""
    assert len(OURS) > 100
    assert Import("row_sweep", "neighborhoods", True, True, False) in OURS
    assert any(found.module == "cli.denoise" and not found.is_at_import for found in OURS)
    assert any(found.module == "plotting" and found.is_for_types for found in THEIRS)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_know_only_those_before_them(layer):
    known = {*LAYERS[: LAYERS.index(layer) + 1]}
    for found in OURS:
        if room(found.module) == layer:
            assert room(found.target) in known, f"{found.module} imports {found.target}"


@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves_know_only_the_types(leaf):
    for found in OURS:
        if room(found.module) == leaf:
            assert room(found.target) in {leaf, "_typing"}, f"{found.module} imports {found.target}"


def test_only_the_command_line_knows_the_top():
    for found in OURS:
        if room(found.target) in TOP:
            assert room(found.module) == "cli", f"{found.module} imports {found.target or PACKAGE}"


def test_kernels_know_only_numbers_and_the_wrapper():
    modules = {"numpy", "math", "typing", "__future__"}
    for found in IMPORTS:
        if room(found.module) == "_kernels":
            allowed = {"_kernels", "_parallel", "_typing"} if found.is_ours else modules
            assert room(found.target) in allowed, f"{found.module} imports {found.target}"


def test_only_the_wrapper_touches_numba():
    assert {found.module for found in THEIRS if room(found.target) == "numba"} == {"_parallel"}


def test_no_import_comes_back_to_where_it_started():
    graph = {module: set() for module in MODULES}
    for found in OURS:
        if not found.is_for_types and found.target not in ("", found.module):
            graph[found.module].add(found.target)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_optional_packages_are_imported_where_they_are_used():
    for found in THEIRS:
        package = room(found.target)
        if package in sys.stdlib_module_names:
            continue
        assert package in REQUIRED | OPTIONAL, f"{found.module} imports {found.target}, which nothing installs"
        if package in OPTIONAL:
            assert found.is_for_types or not found.is_at_import, f"{found.module} imports {found.target} at once"


def test_importing_the_package_imports_no_optional_package():
    unwanted = sorted(OPTIONAL | {"pandas", "ot", "click", "rich", "hypothesis", "pytest"})
    script = f"import sys, {PACKAGE}; print([name for name in {unwanted} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_everything_public_is_there():
    for name in gaussian_transform.__all__:
        assert getattr(gaussian_transform, name) is not None
    assert sorted(gaussian_transform.__all__) == sorted(set(gaussian_transform.__all__))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_functions_stay_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            has_docstring = ast.get_docstring(node) is not None
            n_documentation = first.end_lineno - first.lineno + 1 if has_docstring else 0
            n_lines = node.end_lineno - node.lineno + 1 - n_documentation
            assert n_lines <= MOST_FUNCTION_LINES, f"{node.name} in line {node.lineno} has {n_lines} lines"
