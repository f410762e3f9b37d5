"""The code of the documentation runs, and prints what stands there."""

import doctest
from pathlib import Path

import nodeward

PAGE = Path(__file__).parents[2] / "docs/tutorial/python.md"
HOW = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_examples_of_the_module():
    """Goal: what docstrings show is so, and there is one for each function that shows something."""
    done = doctest.testmod(nodeward, extraglobs={"nodeward": nodeward}, optionflags=HOW)
    assert done.failed == 0 and done.attempted >= 20


def test_the_tutorial():
    """Goal: the five-minute page works from its first line to its last."""
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=HOW)
    assert done.failed == 0 and done.attempted >= 15
