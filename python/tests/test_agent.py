"""Groups at an agent, and moves that the kernel forbids. The agent is that of tests/python.rs, at
NODEWARD_SOCKET, whose machine has nodes 0 to 2."""

import os
import threading

import pytest

import nodeward
from nodeward import AgentError, InvalidError, NoAgentError

from conftest import in_child

needs_agent = pytest.mark.skipif(
    "NODEWARD_SOCKET" not in os.environ, reason="no agent: tests/python.rs starts one"
)


@needs_agent
def test_a_group_is_made_and_ends():
    """Goal: a group takes arrays, buffers and threads, says where it is to be, and ends with
    `with`; a number that is gone is refused."""
    array = nodeward.empty(1 << 20, "uint8")
    with nodeward.Group("kv", home="0-1") as group:
        assert group.id > 0
        group.add(array)
        group.add(bytearray(10000))
        group.add_thread()
        group.add_thread(threading.get_native_id())
        group.add_all_threads()
        group.set_home("spread:0-1")
        assert group.nodes() is None, "no round yet"
        told = in_child(lambda: str(group.delete()))
        assert told == "None" and group.nodes() is None, "a child deletes nothing"
    with pytest.raises(AgentError, match=f"there is no group {group.id}"):
        group.set_home("auto")


@needs_agent
def test_wrong_groups_are_refused():
    """Goal: names, homes, threads and devices that are none are refused."""
    with pytest.raises(InvalidError):
        nodeward.Group("not a name")
    with pytest.raises(InvalidError):
        nodeward.Group("kv", home="left")
    with pytest.raises(nodeward.DeviceError):
        nodeward.Group("kv", near="gpu:4095")
    with nodeward.Group("kv") as group:
        with pytest.raises(AgentError, match="there is no thread"):
            group.add_thread(4_000_000)
        with pytest.raises(InvalidError):
            group.set_home("left")


def test_no_agent_is_told(monkeypatch, tmp_path):
    """Goal: where nobody answers the words say what to start."""
    monkeypatch.setenv("NODEWARD_SOCKET", str(tmp_path / "none"))
    with pytest.raises(NoAgentError, match="start `nodeward balance`"):
        nodeward.Group("kv")


def test_a_kernel_that_forbids_is_told(program, tmp_path):
    """Goal: where a seccomp filter forbids move_pages(2), as in containers, and no agent answers, the
    words say what to do, and the memory is as it was. What is there already needs no move, so with
    one node nothing is forbidden."""
    program(
        f"""
        import ctypes, os, platform, struct
        import nodeward

        number = {{"x86_64": 279, "aarch64": 239}}[platform.machine()]
        lines = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
        filter = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        assert prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert prctl(22, 2, filter) == 0, ctypes.get_errno()  # PR_SET_SECCOMP
        os.environ["NODEWARD_SOCKET"] = {str(tmp_path / "none")!r}
        data = bytearray(b"\\1") * (1 << 20)
        for act in [lambda node: nodeward.migrate(data, node), nodeward.rehome]:
            denied = 0
            for node in nodeward.nodes():
                try:
                    report = act(node)
                except nodeward.DeniedError as error:
                    assert "is not permitted" in str(error), error
                    denied += 1
                else:
                    assert report.moved == 0, report
            assert denied > 0 or len(nodeward.nodes()) == 1
        assert data == b"\\1" * (1 << 20)
        """
    )
