"""What the tests share: nodes, and programs of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

import nodeward

MIB = 1 << 20


@pytest.fixture
def home():
    """A node that this process may use: the last, which is the first where there is one."""
    return nodeward.nodes()[-1]


@pytest.fixture
def slow_move():
    """Moves an array that is in memory in about so many seconds, also where there is one node: then
    it goes out of sight until it is touched."""
    if len(nodeward.nodes()) == 1 and nodeward.pager()[0] != "move":
        pytest.skip(f"nothing can move here: one node, and {nodeward.pager()[1]}")

    def move(array, *, seconds):
        (there,) = nodeward.residency(array, exact=True)
        others = [node for node in nodeward.nodes() if node != there] + ["touch"]
        rate = int(memoryview(array).nbytes / seconds)
        return nodeward.migrate(array, others[0], rate=rate)

    return move


@pytest.fixture
def program():
    """Runs a program with nodeward in a Python of its own, and returns what it prints. It has five
    minutes: more than any of them needs on a slow machine."""

    def run(text, *, code=0):
        command = [sys.executable, "-P", "-c", textwrap.dedent(text)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


def in_child(act):
    """Runs a function in a child of fork(2), and returns what it returns, a text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = act()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as told:
        text = told.read()
    os.waitpid(child, 0)
    return text
