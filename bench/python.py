"""Measures the promises about the package for Python, with the programs that were built beside it.

    python3 bench/python.py --built DIRECTORY --figure NAME [--smoke]

DIRECTORY has libnodeward_python.so and, for `migrate`, libnodeward.so. The last line is JSON.
"""

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIB, MIB = 1 << 30, 1 << 20
SOURCE = Path(__file__).parents[1] / "python/nodeward"


def stage(built, folder):
    """Makes the package in a folder, as a wheel installs it."""
    shutil.copytree(SOURCE, folder / "nodeward", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(built / "libnodeward_python.so", folder / "nodeward/_native.abi3.so")


def timed(act):
    """Returns how many seconds something takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def python(folder, code):
    """Runs a Python of its own; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


def import_time(folder, smoke):
    """Milliseconds of `import nodeward`, the median; once before, for the compiled files. On a busy
    host the time on a CPU tells how much of it is ours."""
    code = """import time
t, cpu = time.perf_counter(), time.process_time()
import nodeward
print(time.perf_counter() - t, time.process_time() - cpu)"""
    python(folder, code)
    runs = [python(folder, code).split() for _ in range(3 if smoke else 21)]
    wall, cpu = (round(statistics.median(float(run[it]) * 1e3 for run in runs), 2) for it in (0, 1))
    return {"measured": wall, "unit": "ms", "cpu_ms": cpu, "runs": len(runs)}


def import_ratio(folder, smoke):
    """The time of a program that only imports, beside one that does nothing; in turns."""
    python(folder, "import nodeward")
    pairs = []
    for _ in range(3 if smoke else 21):
        nothing = timed(lambda: python(folder, "pass"))
        pairs.append(timed(lambda: python(folder, "import nodeward")) / nothing)
    return {"measured": round(statistics.median(pairs), 2), "pairs": len(pairs)}


def fill(view):
    """Touches all of it."""
    block = bytes(2 * MIB)
    for start in range(0, len(view), len(block)):
        view[start : start + len(block)] = block[: len(view) - start]


def available():
    """Bytes that could be used without swapping."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        found = [line for line in lines if line.startswith("MemAvailable:")]
    return int(found[0].split()[1]) << 10


def residency(folder, smoke):
    """Milliseconds of residency(): the longest median of 16 GiB that are reserved, of what fits of
    them in huge pages, and of 1 GiB in base pages."""
    import nodeward

    fits = min(16 * GIB, available() // 2) // (2 * MIB) * (2 * MIB)
    fits = 16 * MIB if smoke else fits
    longest, samples = 0, {}
    for name, bytes, committed, huge in [("reserved", 16 * GIB, 0, True), ("huge", fits, fits, True),
                                         ("base", min(fits, GIB), min(fits, GIB), False)]:
        array = nodeward.empty(bytes, "uint8", huge=huge)
        if committed:
            array.commit()
        runs = [timed(lambda: nodeward.residency(array)) * 1e3 for _ in range(3 if smoke else 21)]
        found = sum(nodeward.residency(array).values())
        assert found == committed, f"{found} of {committed} bytes were found"
        samples[name] = {"bytes": bytes, "ms": round(statistics.median(runs), 3)}
        longest = max(longest, samples[name]["ms"])
        del array
    return {"measured": longest, "unit": "ms", "samples": samples}


class CLibrary:
    """A region of libnodeward, by ctypes."""

    def __init__(self, path, bytes):
        self.functions, self.bytes = ctypes.CDLL(str(path)), bytes
        self.pager, self.region = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("nodeward_pager_open", None, ctypes.byref(self.pager))
        size = ctypes.sizeof(self.Options)
        options = self.Options(size=size, page=0)
        at = [self.pager, ctypes.c_size_t(bytes), ctypes.byref(options), ctypes.byref(self.region)]
        self.call("nodeward_region_reserve", *at)
        address = self.functions.nodeward_region_address
        address.restype = ctypes.c_void_p
        self.view = memoryview((ctypes.c_char * bytes).from_address(address(self.region))).cast("B")

    class Options(ctypes.Structure):
        """struct nodeward_region_options"""

        _fields_ = [("size", ctypes.c_size_t), ("page", ctypes.c_uint32),
                    ("mode", ctypes.c_uint32), ("fork", ctypes.c_uint32),
                    ("flags", ctypes.c_uint32), ("nodes", ctypes.c_void_p),
                    ("node_count", ctypes.c_size_t)]

    def call(self, name, *arguments):
        status = getattr(self.functions, name)(*arguments)
        assert status == 0, f"{name} returned {status}"

    def migrate(self, node):
        whole = [self.region, ctypes.c_size_t(0), ctypes.c_size_t(self.bytes)]
        if node == "touch":
            self.call("nodeward_region_migrate_lazily", *whole, None, None)
        else:
            self.call("nodeward_region_migrate", *whole, ctypes.c_uint32(node), None, None)


def mover(name, smoke, built):
    """Moves a GiB of base pages whenever it is asked, by the package or by the C library, and prints
    how long that took and how long CPUs worked. Each has a process of its own, as for users: two
    pagers in one process would take each other's threads for the load of others."""
    import nodeward

    bytes = 16 * MIB if smoke else GIB
    if name == "ours":
        array = nodeward.empty(bytes, "uint8", huge=False)
        view, move = memoryview(array), lambda node: nodeward.migrate(array, node)
    else:
        region = CLibrary(built / "libnodeward.so", bytes)
        view, move = region.view, region.migrate
    fill(view)
    print("ready", flush=True)
    for line in sys.stdin:
        node = line.strip()
        cpu = time.process_time()
        took = timed(lambda: move(node if node == "touch" else int(node)))
        print(took, time.process_time() - cpu, flush=True)
        fill(view)
        print("ready", flush=True)


class Mover:
    """A process that moves, and waits until it is asked again."""

    def __init__(self, name, folder, smoke, built):
        command = [sys.executable, __file__, "--built", str(built), "--figure", f"mover-{name}"]
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        self.process = subprocess.Popen(command + ["--smoke"] * smoke, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wait()

    def wait(self):
        """Waits until its memory is touched."""
        assert self.process.stdout.readline() == "ready\n", "a mover ended"

    def move(self, node):
        """Returns the seconds that a move took, and the seconds of CPUs."""
        self.process.stdin.write(f"{node}\n")
        self.process.stdin.flush()
        took = [float(word) for word in self.process.stdout.readline().split()]
        self.wait()
        return took


def one_pair(order, nodes, arguments):
    """Starts a mover of each kind in an order, and asks them in turns. Returns the medians of the
    seconds of each kind, and of its CPUs."""
    movers = {name: Mover(name, *arguments) for name in order}
    took = {name: [] for name in order}
    for turn in range(3):
        for name in order:
            took[name].append(movers[name].move(nodes[turn % len(nodes)]))
    for it in movers.values():
        it.process.communicate()
    return {name: [statistics.median(column) for column in zip(*took[name])] for name in order}


def migrate(folder, smoke, built):
    """The speed of migrate() as a part of that of the C library: of an array of base pages to another
    node, or, on one node, out of sight until it is touched. How fast pages move depends on where in
    memory a process was given them, by up to a factor of two, and on who was first: so each pair has
    new processes, a double pair has them in both orders, and its figure is the geometric mean. On a
    busy host the time on CPUs, of all threads, tells how much is ours."""
    import nodeward

    if nodeward.pager()[0] != "move" and len(nodeward.nodes()) == 1:
        print("one node, and userfaultfd moves nothing here", file=sys.stderr)
        sys.exit(77)
    nodes = nodeward.nodes() if len(nodeward.nodes()) > 1 else ["touch"]
    orders = [("ours", "theirs"), ("theirs", "ours")]
    ratios = []
    for _ in range(1 if smoke else 9):
        pairs = [one_pair(order, nodes, (folder, smoke, built)) for order in orders]
        ratios.append([statistics.geometric_mean(pair["theirs"][it] / pair["ours"][it]
                                                 for pair in pairs) for it in (0, 1)])
    wall, cpu = (round(statistics.median(column), 3) for column in zip(*ratios))
    return {"measured": wall, "cpu": cpu, "to": nodes, "bytes": 16 * MIB if smoke else GIB,
            "double_pairs": [[round(it, 3) for it in pair] for pair in ratios]}


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--built", type=Path, required=True)
    words.add_argument("--figure", required=True)
    words.add_argument("--smoke", action="store_true")
    given = words.parse_args()
    if given.figure.startswith("mover-"):
        mover(given.figure.removeprefix("mover-"), given.smoke, given.built)
        return
    with tempfile.TemporaryDirectory() as folder:
        stage(given.built, Path(folder))
        sys.path.insert(0, folder)
        figures = {
            "import": lambda: import_time(folder, given.smoke),
            "import-ratio": lambda: import_ratio(folder, given.smoke),
            "residency": lambda: residency(folder, given.smoke),
            "migrate": lambda: migrate(folder, given.smoke, given.built),
        }
        print(json.dumps(figures[given.figure]()))


if __name__ == "__main__":
    main()
