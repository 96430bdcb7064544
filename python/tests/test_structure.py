"""The package's own rules: modules import each other in one direction, and files are short."""

import ast
import glob
import os

import pytest

import jobs

ROOT = os.path.join(jobs.ROOT, "python")
PATHS = {os.path.relpath(p, ROOT)[:-3].replace(os.sep, ".").removesuffix(".__init__"): p
         for p in glob.glob(os.path.join(ROOT, "goccl", "**", "*.py"), recursive=True)}


def _imports(module, path):
    """The modules of the package that a module imports anywhere: at its top, in functions, and for type checkers
    alone."""
    package = module.split(".") if path.endswith("__init__.py") else module.split(".")[:-1]
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[:len(package) - node.level + 1],
                             node.module or ""]).rstrip(".") if node.level else node.module
            yield from (f"{base}.{a.name}" if f"{base}.{a.name}" in PATHS else base for a in node.names)


def _circle(graph):
    """Some modules that import each other in a circle, or None."""
    state = {}

    def visit(module, trail):
        if state.get(module) == "done":
            return None
        if module in trail:
            return [*trail[trail.index(module):], module]
        for target in sorted(graph[module]):
            found = visit(target, [*trail, module])
            if found:
                return found
        state[module] = "done"
        return None

    return next(filter(None, (visit(m, []) for m in sorted(graph))), None)


def test_imports_have_no_circles():
    graph = {m: {t for t in _imports(m, p) if t in PATHS and t != m} for m, p in PATHS.items()}
    assert len(graph) > 30 and sum(map(len, graph.values())) > 100
    assert _circle(graph) is None
    assert _circle(graph | {"goccl.errors": {"goccl.comm"}}) is not None


def test_files_are_short():
    for path in glob.glob(os.path.join(ROOT, "**", "*.py*"), recursive=True):
        if path.endswith((".py", ".pyi")):
            with open(path, encoding="utf-8") as f:
                lines = f.read().split("\n")
            assert len(lines) <= 401, f"{path} has {len(lines)} lines"
            long = [i + 1 for i, line in enumerate(lines) if len(line) > 120]
            assert "tests" in path or not long, f"{path}: lines {long} have more than 120 columns"


def _reads_environment(tree):
    """Whether a module reads the environment: os.environ (except its methods that write), os.getenv."""
    writes = {id(n.value) for n in ast.walk(tree)
              if isinstance(n, ast.Attribute) and n.attr in ("update", "setdefault")}
    return any(isinstance(n, ast.Attribute) and n.attr in ("environ", "environb", "getenv") and id(n) not in writes
               for n in ast.walk(tree))


def test_one_module_reads_the_environment():
    # preload_environment copies the whole of it for a program
    allowed = {"goccl._env", "goccl.torch"}
    readers = set()
    for module, path in PATHS.items():
        with open(path, encoding="utf-8") as f:
            if _reads_environment(ast.parse(f.read())):
                readers.add(module)
    assert readers == allowed
    assert not _reads_environment(ast.parse("import os\nos.environ.setdefault('A', 'b')"))
    assert _reads_environment(ast.parse("import os\nos.environ['A']"))


def test_entry_points_name_functions_and_classes():
    """PyTorch imports what the wheel's entry points name; a name that has moved would fail there alone."""
    tomllib = pytest.importorskip("tomllib")
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        project = tomllib.load(f)["project"]
    groups = {"scripts": project["scripts"], **project["entry-points"]}
    assert {"torch.backends", "torch.distributed.backends", "torch.distributed.transports"} <= set(groups)
    for group, entries in groups.items():
        for target in entries.values():
            module, _, function = target.partition(":")
            with open(PATHS[module], encoding="utf-8") as f:
                names = {n.name for n in ast.parse(f.read()).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
            assert function in names, f"{group}: {target}"
