# SPDX-License-Identifier: MIT
"""Tests that scripts/check_words refuses bad examples of each of its rules, and passes good ones."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts/check_words"
LONG = "word " * 30
GOOD = {
    "docs/README.md": "# Pages\n\n[words](glossary.md), [page](page.md)\n",
    "docs/glossary.md": "# Glossary\n\n| word | meaning |\n|---|---|\n| union | a scheme |\n| base | parameters |\n",
    "docs/page.md": f"# Page\n\nRanks agree on the **base**. See [words](glossary.md#glossary).\n\n| {LONG} |\n\n```\n{LONG}\n```\n",
    "pliant/plan/choices.h": "// SPDX\n// Choices of a plan.\nenum class Scheme : int { kUnion };\n",
    "python/pliant/a.py": '# SPDX\n"""Module that does a thing."""\n',
    "python/pliant/empty.py": "",
    "CHANGELOG.md": "* The plan epoch is called plan version.\n",
}


class CheckWords(unittest.TestCase):
    def check(self, **changed: str) -> tuple[int, str]:
        """The good tree, with these files as well or instead."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **changed}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
            return done.returncode, done.stdout

    def refuses(self, name: str, text: str, because: str) -> None:
        code, said = self.check(**{name: text})
        self.assertEqual(code, 1, text)
        self.assertIn(because, said)
        self.assertEqual(said.count("\n"), 1, said)

    def test_passes_what_is_right(self) -> None:
        self.assertEqual(self.check(), (0, "check_words: 4 pages, 3 openings\n"))

    def test_only_prose_is_held_to_the_width(self) -> None:
        self.refuses("docs/page.md", f"short\n{LONG}\n", "docs/page.md:2: over 100 columns")

    def test_links_lead_somewhere(self) -> None:
        self.refuses("docs/page.md", "[a](gone.md)\n", "links to gone.md, which does not exist")
        self.refuses("docs/page.md", "[a](glossary.md#gone)\n", "no such heading")

    def test_paths_exist(self) -> None:
        self.refuses(
            "docs/page.md", "`pliant/gone.h`\n", "names pliant/gone.h, which does not exist"
        )

    def test_every_page_is_listed(self) -> None:
        self.refuses("docs/other.md", "# Other\n", "docs/README.md does not list docs/other.md")

    def test_openings_say_what_a_thing_is(self) -> None:
        for words in ("What it is.", "Which of them.", "How to.", "Of one rank.", "Who sends.",
                      "When it ends.", "Has it changed? Then evaluate.", "A thing. Or is it?"):  # fmt: skip
            self.refuses(
                "pliant/a/x.h", f"// SPDX\n// {words}\n#pragma once\n", "pliant/a/x.h opens"
            )
            self.refuses("bench/x.py", f'"""{words}"""\n', "bench/x.py opens")
        self.refuses("tools/x/x.h", "// SPDX\n#pragma once\n", "has no opening")
        self.refuses("python/x.py", "x = 1\n", "has no opening")
        self.refuses("scripts/x", "#!/usr/bin/env python3\nx = 1\n", "scripts/x has no opening")

    def test_project_words_are_in_the_glossary(self) -> None:
        self.refuses("docs/page.md", "Ranks keep a **hoard** of it.\n", "'hoard' is not in")
        self.refuses(
            "pliant/plan/choices.h",
            "// SPDX\n// Choices.\nenum class Scheme : int { kUnion, kSrs };\n",
            "'srs' of plans is missing",
        )
        again = GOOD["docs/glossary.md"] + "| base | once more |\n"
        self.refuses("docs/glossary.md", again, "'base' is there twice")

    def test_replaced_words_are_refused(self) -> None:
        self.refuses("docs/page.md", "# Page\n\nThe plan epoch.\n", "write: plan version")
        self.refuses("pliant/a/x.cc", "// Buffers stay at home.\n", "write: not sent")


if __name__ == "__main__":
    unittest.main()
