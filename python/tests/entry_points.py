"""The entry points of python/pyproject.toml, for tests that run in a checkout."""

import configparser
import os
import sys

_PROJECT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pyproject.toml")


def install(folder):
    """Writes what an installed goccl says of its entry points to a folder, and puts that on sys.path."""
    project = configparser.ConfigParser(delimiters="=", strict=False, interpolation=None)
    project.read(_PROJECT)
    info = os.path.join(folder, "goccl-0.dist-info")
    os.makedirs(info, exist_ok=True)
    with open(os.path.join(info, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\nName: goccl\nVersion: 0\n")
    with open(os.path.join(info, "entry_points.txt"), "w") as f:
        for section in project.sections():
            if section.startswith("project.entry-points."):
                f.write(f'[{section.removeprefix("project.entry-points.").strip(chr(34))}]\n')
                f.writelines(f"{k} = {v.strip(chr(34))}\n" for k, v in project[section].items())
    sys.path.insert(0, folder)
