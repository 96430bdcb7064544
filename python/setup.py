"""The wheel: pure Python with libgoccl.so, libnccl.so.2, libmscclpp.so, libgoccl-profiler.so, the goccl program and
the headers inside, built by the repository's Makefile.

Needs Go and a C compiler when building, nothing when running. The tag is py3-none-<platform>: one wheel for every
Python. `make release` has built all before: RELEASE_TREE is a prefix of `make install`, and RELEASE_PLATFORM the tag's
platform. Its wheel leaves the program to goccl-tool.
"""

import os
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def make(*arguments: str) -> None:
    subprocess.run(arguments, cwd=ROOT, check=True)


class BuildWithLibrary(build_py):
    """build_py, and what Go and C make."""

    def run(self) -> None:
        super().run()
        package = os.path.join(self.build_lib, "goccl")
        lib = os.path.join(package, "lib")
        tree = os.environ.get("RELEASE_TREE")
        if not tree:
            make("make", "libgoccl", "libnccl", "libmscclpp", "libprofiler")
            if self.editable_mode:
                return  # the package finds them in the checkout's build folder
            make("go", "build", "-trimpath", "-overlay", "build/kernels/overlay.json", "-ldflags", "-s -w", "-o",
                 os.path.abspath(os.path.join(lib, "goccl")), "./cmd/goccl")
        os.makedirs(lib, exist_ok=True)
        for name in ("libgoccl.so", "libnccl.so.2", "libmscclpp.so", "libgoccl-profiler.so"):
            shutil.copy2(os.path.join(tree, "lib", name) if tree else os.path.join(ROOT, "build", name), lib)
        include = os.path.join(package, "include")
        shutil.rmtree(include, ignore_errors=True)
        shutil.copytree(os.path.join(tree or os.path.join(ROOT, "build"), "include"), include)


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", os.environ.get("RELEASE_PLATFORM") or super().get_tag()[2]


class WithLibraries(Distribution):
    """A distribution whose files belong to a platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=WithLibraries, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
