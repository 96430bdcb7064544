"""C++ modules for Python: sources that contain a module of pybind11 or nanobind, built by nvcc or a C++ compiler
against goccl's C++ headers."""

import atexit
import fcntl
import glob
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from types import ModuleType

from . import errors
from ._env import read
from ._lib import directory
from ._typing import Arch
from .device import current_device

_INSTEAD = ("; with NVRTC, which needs none of this, keep the kernels (extern \"C\" __global__) and describe the "
            "algorithm with goccl.NativeAlgorithm (docs/python.md)")


def binding(source: str) -> str | None:
    """The library by which a source is a Python module: pybind11, nanobind, or None."""
    if re.search(r"^\s*PYBIND11_MODULE\s*\(", source, re.M) or "#include <pybind11/" in source:
        return "pybind11"
    if re.search(r"^\s*NB_MODULE\s*\(", source, re.M) or "#include <nanobind/" in source:
        return "nanobind"
    return None


def compile_extension(name: str, file: str, library: str, options: Sequence[str] = (),
                      include_dirs: Sequence[str | os.PathLike[str]] = (), arch: "Arch | None" = None) -> ModuleType:
    """Builds and imports the module name of a source file. Builds are kept with the hashes of everything that they
    read, unless GOCCL_CACHE_DIR is off."""
    command, sources = _command(file, library, options, include_dirs, arch)
    target = build(name, file, command, sources, ["-lmscclpp"], sys.version)
    spec = importlib.util.spec_from_file_location(name, target)
    if spec is None or spec.loader is None:
        raise errors.InternalError(f"{target} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as e:
        text = f"{file}: {e}: the name given to compile_native must be the name of the file's module"
        raise errors.InvalidArgument(text) from e
    sys.modules.setdefault(name, module)
    return module


def _command(file: str, library: str, options: Sequence[str], include_dirs: Sequence[str | os.PathLike[str]],
             arch: "Arch | None") -> tuple[list[str], list[str]]:
    """The compiler's command line, less files and link options, and the sources."""
    from . import get_include

    python = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        raise errors.Unsupported(f"{file} is a {library} module, and {python} has no Python.h: install Python's "
                                 f"headers (python3-dev){_INSTEAD}")
    include = get_include()
    if not os.path.exists(os.path.join(include, "mscclpp", "algorithm.hpp")):
        raise errors.Unsupported(f"{file} is a {library} module, and {include} has no mscclpp/algorithm.hpp: run make "
                                 f"headers{_INSTEAD}")
    folders, sources = _binding_files(file, library)
    if file.endswith(".cu"):
        nvcc = _nvcc()
        if nvcc is None:
            raise errors.Unsupported(f"{file} is a {library} module with kernels, and there is no nvcc in CUDA_HOME, "
                                     "on PATH or from PyPI: install a CUDA toolkit, or pip install "
                                     f"nvidia-cuda-nvcc{_INSTEAD}")
        command = [nvcc, "-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-arch=" + _architecture(arch)]
        command += ["-L" + lib for lib in _cuda_libraries(nvcc)]
    else:
        need = f"{file} is a {library} module"
        command = [compiler(need, _INSTEAD), "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"]
    here = os.path.dirname(os.path.abspath(file))
    return [*command, *("-I" + os.fspath(d) for d in (here, *include_dirs, include, python, *folders)),
            *options], [os.path.abspath(file), *sources]


def compiler(need: str, instead: str) -> str:
    """The C++ compiler. The error says what needs one, and what can be done instead."""
    found = next(filter(None, map(shutil.which, filter(None, [read("CXX"), "c++", "g++", "clang++"]))), None)
    if found is None:
        raise errors.Unsupported(f"{need}, and there is no C++ compiler: install g++, or set CXX{instead}")
    return found


def _binding_files(file: str, library: str) -> tuple[list[str], list[str]]:
    """The include folders and the sources that a binding library brings."""
    try:
        found = importlib.import_module(library)
    except ImportError as e:
        raise errors.Unsupported(f"{file} is a {library} module: pip install {library}{_INSTEAD}") from e
    if library == "pybind11":
        return [found.get_include()], []
    return [found.include_dir(), os.path.join(os.path.dirname(found.source_dir()), "ext", "robin_map", "include")], \
        [os.path.join(found.source_dir(), "nb_combined.cpp")]


def _nvcc() -> str | None:
    places = [read("CUDA_HOME"), "/usr/local/cuda",
              *(os.path.join(p, "nvidia", v) for p in sys.path for v in ("cu13", "cuda_nvcc"))]
    for p in places[:1]:
        if p and os.access(os.path.join(p, "bin", "nvcc"), os.X_OK):
            return os.path.join(p, "bin", "nvcc")
    found = (os.path.join(p, "bin", "nvcc") for p in places[1:])
    return shutil.which("nvcc") or next((n for n in found if os.access(n, os.X_OK)), None)


def _cuda_libraries(nvcc: str) -> list[str]:
    home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    return [d for d in (os.path.join(home, "lib64"), os.path.join(home, "lib")) if os.path.isdir(d)]


def _architecture(arch: "Arch | None") -> str:
    if arch is None:
        return "sm_90" if current_device().is_host else "native"  # of the GPUs of this machine
    return arch if isinstance(arch, str) else f"sm_{arch[0]}{arch[1]}"


def _cache() -> str:
    given = read("GOCCL_CACHE_DIR")
    if given == "off":
        folder = tempfile.mkdtemp(prefix="goccl-extension-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    base = given or os.path.join(read("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "goccl")
    folder = os.path.join(base, "extensions")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _hash(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def _current(folder: str, target: str) -> bool:
    """Whether there is a build of the files as they are now."""
    try:
        with open(os.path.join(folder, "files.json"), encoding="utf-8") as f:
            files = json.load(f)
        return os.path.exists(target) and all(_hash(p) == h for p, h in files.items())
    except (OSError, ValueError):
        return False


def build(name: str, file: str, command: list[str], sources: list[str], link: list[str], version: str) -> str:
    """The path of the library, made of sources unless there is a current build for this version. One process builds,
    and others wait for it."""
    digest = hashlib.sha256("\0".join([name, *command, *sources, version]).encode()).hexdigest()
    folder = os.path.join(_cache(), digest[:32])
    target = os.path.join(folder, name + ".so")
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _current(folder, target):
            _build(file, command, sources, link, folder, target)
    return target


def _build(file: str, command: list[str], sources: list[str], link: list[str], folder: str, target: str) -> None:
    """Compiles in a temporary folder, which then takes the target's place."""
    lib = directory() or "."
    work = tempfile.mkdtemp(prefix="build-", dir=os.path.dirname(folder))
    try:
        objects, files = [], {}
        for i, source in enumerate(sources):
            objects.append(os.path.join(work, f"{i}.o"))
            _run(file, [*command, "-MD", "-MF", os.path.join(work, f"{i}.d"), "-c", "-o", objects[-1], source])
        for path in glob.glob(os.path.join(work, "*.d")):
            with open(path, encoding="utf-8") as f:
                for p in re.split(r"(?<!\\)\s+", f.read().partition(":")[2].replace("\\\n", " ")):
                    if p and os.path.exists(p):
                        files[p] = _hash(p)
        nvcc = os.path.basename(command[0]) == "nvcc"
        rpath = ["-Xlinker", "-rpath=" + lib] if nvcc else ["-Wl,-rpath," + lib]
        _run(file, [*command, "-shared", "-o", os.path.join(work, os.path.basename(target)), *objects, "-L" + lib,
                    *link, *rpath])
        with open(os.path.join(work, "files.json"), "w", encoding="utf-8") as f:
            json.dump(files, f)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(file: str, argv: list[str]) -> None:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        raise errors.InvalidArgument(f"{file} does not compile:\n{' '.join(argv)}\n{done.stdout}")
