# SPDX-License-Identifier: MIT
"""The code blocks of README.md. `readme.py cpp` prints those in C++, as a file to compile: the
includes, then each in a function of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """Those in this language; "" is what a shell runs."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return [text for kind, text in fenced if kind == language]


def commands() -> list[str]:
    return [
        line.split(" #")[0].strip()
        for block in blocks("")
        for line in block.splitlines()
        if line.strip()
    ]


def as_functions(sources: list[str]) -> str:
    lines = [line for source in sources for line in source.splitlines()]
    includes = [line for line in lines if line.startswith("#include")]
    text = "\n".join(includes) + "\n\n"
    for number, source in enumerate(sources):
        body = "\n".join(line for line in source.splitlines() if not line.startswith("#include"))
        text += f"void block{number}(pliant::comm::Communicator& communicator, std::span<float> gradient, std::uint32_t step) {{\n{body}\n}}\n"
    return text


if __name__ == "__main__":
    assert sys.argv[1:] == ["cpp"], __doc__
    print(as_functions(blocks("cpp")), end="")
