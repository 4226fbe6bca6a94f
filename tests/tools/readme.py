# SPDX-License-Identifier: MIT
"""Code blocks that README.md, docs/tools.md and docs/cpp.md show and tests run. `readme.py cpp`
prints those in C++, as a file to compile: the includes, then each in a function of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
# The sections of other pages that are run as well.
CPP = (ROOT / "docs/cpp.md", "One exchange")
TOOLS = (ROOT / "docs/tools.md", "From a checkout")


def section(page: Path, heading: str) -> str:
    found = re.search(
        rf"^## {heading}$(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found, f"{page.name} has no section '{heading}'"
    return found.group(1)


def blocks(language: str, text: str | None = None) -> list[str]:
    """The blocks in this language, of the README by default; "" is what a shell runs."""
    text = README.read_text() if text is None else text
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [code for kind, code in fenced if kind == language]


def commands() -> list[str]:
    return [
        line.split(" #")[0].strip()
        for block in blocks("") + blocks("", section(*TOOLS))
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
    print(as_functions(blocks("cpp", section(*CPP))), end="")
