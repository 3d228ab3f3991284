"""Plain English in documents and source: words of a dialect that both once had, and lines that are too long to read."""

from __future__ import annotations

import io
import re
import tokenize
from typing import Final

LINE_SIZE_MAX: Final = 120
"""One sentence is on one line of prose, or is wrapped: as long as a line of code."""
DIALECT: Final = re.compile(
    r"\b(whoever|whomever|somebody|nobody|everybody|anybody|those who|told|looked into"
    r"|where (?:there (?:is|are|was|were)|nothing|none|no|not)\b)",
    re.IGNORECASE,
)
"""People in place of programs, and `where` in place of `if`. STYLE.md says what to write instead."""
SOURCE_DIALECT: Final = re.compile(rf"{DIALECT.pattern}|\b(anew)\b", re.IGNORECASE)
"""Words that comments, docstrings and messages of the source must not have."""
IDIOMS: Final = re.compile(
    r"\b(whatever|whichever|for ever|for good|beside|at once|meanwhile|all the same|pass(?:es)? over|go(?:es)? on"
    r"|in the place of|as it came|made again)\b",
    re.IGNORECASE,
)
"""Idioms with more than one meaning, such as `at once`: immediately, or at the same time? Each has a plain word."""
VAGUE_NAMES: Final = frozenset(
    {"found", "told", "asked", "given", "wanted", "shown", "known", "seen", "got", "said", "heard", "looked"}
)
"""Words that say how a value was obtained, not what it is."""
VAGUE_TEST_NAMES: Final = VAGUE_NAMES | {"kept", "taken"}
"""Those that no test, benchmark or example may use. The source has a few attributes with the last two."""
FORBIDDEN: Final = re.compile(r"\b(whoever|somebody|nobody|told|looked into)\b", re.IGNORECASE)
"""Five words that no comment, docstring or message of a test, benchmark or example needs."""
ODD_TEST_NAME: Final = re.compile(
    r"test_(?:what|who|whoever|where|of_what|it)_|_(?:whoever|somebody|nobody|everybody|anybody|those_who|told|looked_into)(?:_|$)"
    r"|_says_so$|_is_told_|_anew(?:_|$)|_whom_|_of_what_|_so_many_|_does_not_tell_"
    r"|_(?:at_once|goes_on|go_on|whatever|whichever|meanwhile|for_ever|for_good|beside|behind_the_end|asked_for)(?:_|$)"
    r"|_(?:all_the_same|as_it_came|of_its_own|is_there_once|are_there_once)(?:_|$)"
)
"""The dialect in the name of a test. Such a name does not say who does what."""
FENCE: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def dialect_words(document: str) -> list[str]:
    """Returns the words of the dialect in `document`. Code, in blocks and in backticks, is left out."""
    prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", document))
    return [word.lower() for word in DIALECT.findall(prose)]


def idioms(document: str) -> list[str]:
    """Returns the IDIOMS in `document`. Code, in blocks and in backticks, is left out."""
    return [word.lower() for word in IDIOMS.findall(re.sub(r"`[^`\n]+`", "", FENCE.sub("", document)))]


def forbidden_words(name: str, text: str, words: re.Pattern[str] = FORBIDDEN) -> list[str]:
    """Returns such `words` in the comments and strings of the module `name`, docstrings included, with their lines."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        f"{name}:{token.start[0]} {' '.join(word[0].lower().split())}"
        for token in tokens
        if token.type in (tokenize.COMMENT, tokenize.STRING)
        for word in words.finditer(re.sub(r"\s+", " ", re.sub(r"`[^`\n]+`", "", token.string)))
    ]


def odd_test_names(text: str) -> list[str]:
    """Returns the names of tests in a module that are in the dialect."""
    return [
        name for name in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE) if ODD_TEST_NAME.search(name)
    ]


def long_lines(document: str) -> list[str]:
    """Returns the beginnings of the lines of prose over LINE_SIZE_MAX. Rows of tables and code may be longer."""
    lines = FENCE.sub("", document).splitlines()
    return [line[:60] for line in lines if len(line) > LINE_SIZE_MAX and not line.lstrip().startswith("|")]
