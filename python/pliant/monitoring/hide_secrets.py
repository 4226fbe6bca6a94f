# SPDX-License-Identifier: MIT
"""Removal of passwords and tokens from a command line, before it is written to the run log.

It goes by names and by the shape of values, so it cannot find everything: a secret under a harmless
name stays."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"

# Parts of names, after camelCase was cut into words. "tokenizer" and "max-tokens" are harmless.
_SECRET_NAME = re.compile(
    r"token(?![a-z])|passw(or)?d|passphrase|passcode|secret|credential|api[-_.]?key"
    r"|authori[sz]ation|bearer|cookie|(?<![a-z])(key|pass|pw|pwd|pat|auth)(?![a-z])",
    re.IGNORECASE,
)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*(?==)")
# name=value, name: value or "name": "value", anywhere in a word.
_ASSIGNMENT = re.compile(r"""([A-Za-z][\w.-]*)["']?\s*[=:]\s*""")
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/@]+(?=@)")
# Tokens of Hugging Face, OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, Google, and JSON web
# tokens.
_KNOWN_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(hf_|sk-|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|xox[abp]-|AKIA|AIza|eyJ)"
    r"[A-Za-z0-9_.\-]{6,}"
)


def hide_secrets(command: Sequence[str]) -> list[str]:
    """The words of a command, with *** in place of values that may be secret."""
    out: list[str] = []
    is_value = False  # of an option whose value is secret
    for word in command:
        is_value = is_value and _OPTION.match(word) is None
        out.append(HIDDEN if is_value else _hide_in(word))
        is_value = _OPTION.fullmatch(word) is not None and _is_secret(word)
    return out


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(_CAMEL_CASE.sub("-", name)) is not None


def _hide_in(word: str) -> str:
    """Where a secret is assigned, the rest of the word is hidden."""
    if found := _ENVIRONMENT.match(word):
        return f"{found[0]}={HIDDEN}"
    for found in _ASSIGNMENT.finditer(word):
        if _is_secret(found[1]):
            return word[: found.end()] + HIDDEN
    return _KNOWN_TOKEN.sub(HIDDEN, _URL_PASSWORD.sub(HIDDEN, word))
