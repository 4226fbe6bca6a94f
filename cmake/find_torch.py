# SPDX-License-Identifier: MIT
"""Prints the folder of the torch that this interpreter's programs will import: the binding must be
built for that one.

pip builds in an environment of its own, which hides the packages that are installed (and would
bring another torch, if it were asked for one). So besides what can be imported, this looks where
the interpreter keeps its packages."""

import importlib.util
import site
import sys
import sysconfig
from pathlib import Path


def candidates() -> list[Path]:
    spec = importlib.util.find_spec("torch")
    found = [Path(spec.origin).parent] if spec is not None and spec.origin else []
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    folders = [
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        site.getusersitepackages(),
        sysconfig.get_path("platlib", vars=base),
    ]
    return found + [Path(folder) / "torch" for folder in folders]


for folder in candidates():
    if (folder / "lib" / "libtorch_python.so").exists():
        print(folder.resolve())
        sys.exit(0)
print(f"no torch for {sys.executable}", file=sys.stderr)
sys.exit(1)
