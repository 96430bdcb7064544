"""The package is typed: py.typed, and annotations on everything."""

import ast
import glob
import importlib.util
import os
import subprocess

import pytest

import jobs

PACKAGE = os.path.join(jobs.ROOT, "python", "goccl")


def _untyped(path):
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())

    def walk(node, where):
        for c in ast.iter_child_nodes(node):
            if isinstance(c, ast.FunctionDef):
                a = c.args
                every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x)]
                missing = [p.arg for p in every
                           if p.annotation is None
                           and p.arg not in ("self", "cls")] + (["->"] if c.returns is None else [])
                if missing:
                    yield f"{os.path.relpath(path, PACKAGE)}: {'.'.join([*where, c.name])}: {' '.join(missing)}"
            if isinstance(c, (ast.FunctionDef, ast.ClassDef)):
                yield from walk(c, [*where, c.name])
            elif not isinstance(c, ast.Lambda):
                yield from walk(c, where)

    return list(walk(tree, []))


def test_every_function_is_annotated():
    assert os.path.exists(os.path.join(PACKAGE, "py.typed"))
    files = glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)
    assert len(files) > 30
    assert not [line for f in files for line in _untyped(f)]


def test_every_public_name_has_a_docstring():
    import goccl

    for name in goccl.__all__:
        value = getattr(goccl, name)
        if not callable(value):
            continue
        assert value.__doc__, name
        if isinstance(value, type):
            for key, member in vars(value).items():
                if not key.startswith("_") and (callable(member)
                                                or isinstance(member, (property, staticmethod, classmethod))):
                    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                    assert function.__doc__ or any(key in vars(b) for b in value.__mro__[1:]), f"{name}.{key}"


def _check(*command):
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    env = os.environ | {"MYPYPATH": os.path.join(jobs.ROOT, "python")}
    p = subprocess.run([jobs.PYTHON, "-m", *command, os.path.join(jobs.ROOT, "python", "tests", "typed_sample.py")],
                       capture_output=True, text=True, timeout=240, env=env)
    assert p.returncode == 0, p.stdout + p.stderr


def test_mypy():
    _check("mypy", "--strict", "--follow-imports=silent", "--cache-dir=/dev/null")


def test_pyright():
    _check("pyright", "--pythonpath", jobs.PYTHON)
