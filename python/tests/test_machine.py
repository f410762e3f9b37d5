"""The machine, rehome() and residency()."""

import numpy as np
import pytest

import nodeward
from nodeward import DeviceError, InvalidError, UnknownNodeError

from conftest import MIB


def test_the_machine_is_told():
    """Goal: the nodes have CPUs and memory, and a distance of 10 to themselves."""
    topology = nodeward.topology()
    assert set(nodeward.nodes()) <= set(topology.nodes)
    assert any(node.cpus for node in topology.nodes.values())
    for number, node in topology.nodes.items():
        assert node.id == number and node.distances.get(number, 10) == 10
        assert node.memory is None or 0 <= (node.free or 0) <= node.memory
    method, why = nodeward.pager()
    assert method in ("move", "remap", "kernel") and (why is None) == (method == "move")


def test_devices_that_are_none_are_refused():
    """Goal: a name that is none, a device that is not here, and one without a node, each in its
    words."""
    for device, words in [("eth0", "is no device"), ("netdev:nowhere", "there is no device"),
                          ("near:gpu:4095", "there is no device gpu:4095"),
                          ("netdev:lo", "the firmware does not say")]:
        with pytest.raises(DeviceError, match=words):
            nodeward.near(device)


def test_all_memory_goes_home(home):
    """Goal: what the process touched is at its home afterwards, kinds that are excluded are not
    looked at, and every page is told."""
    data = np.ones(8 * MIB, "uint8")
    report = nodeward.rehome(home, exclude=["file", "shared"], stall="1ms")
    assert report.moved + report.already_there + sum(report.skipped.values()) >= 8 * MIB
    there = nodeward.residency(data, exact=True).get(home, 0)
    assert 0 < data.nbytes - sum(report.skipped.values()) <= there, report
    less = nodeward.rehome(home, exclude=["file", "shared", "heap", "anonymous", "huge"])
    assert 0 < less.already_there < 8 * MIB, "only the stack is left"
    pinned = nodeward.rehome(home, exclude=["pinned", "file"])
    assert pinned.moved + pinned.already_there >= 8 * MIB


def test_homes_that_are_none_are_refused():
    """Goal: neither, or both, of node and device, nodes that are none, and kinds that are none."""
    for wrong in [{}, {"node": 0, "near": "gpu:0"}]:
        with pytest.raises(InvalidError, match="give one of them"):
            nodeward.rehome(**wrong)
    with pytest.raises(UnknownNodeError):
        nodeward.rehome(77)
    with pytest.raises(DeviceError):
        nodeward.rehome(near="gpu:4095")
    with pytest.raises(InvalidError, match="nothing to exclude; there are pinned, heap"):
        nodeward.rehome(0, exclude=["cache"])


def test_a_large_buffer_is_sampled(home):
    """Goal: of much memory a part is looked at, and the estimate says so; counted, it is exact."""
    array = nodeward.empty(256 * MIB, "uint8", node=home, huge=False)
    view = np.asarray(array)
    view[: 128 * MIB : 4096] = 1
    sampled, counted = nodeward.residency(array), nodeward.residency(array, exact=True)
    assert counted == {home: 128 * MIB} and counted.exact and counted.error == 0
    assert set(sampled) == {home}
    assert abs(sampled[home] - 128 * MIB) <= max(sampled.error, 16 * MIB)
