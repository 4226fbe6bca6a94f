# SPDX-License-Identifier: MIT
"""A hundred kills: whoever gets SIGKILL, no process, no namespace, no device, no file is left, and the machine's network is untouched."""
import os
import signal
import tempfile
import unittest
from pathlib import Path

from support import children, machine_network, main, processes, start, until, with_word

KILLS = 100
# A host that has a child, and a grandchild that has left its session.
HOST = "setsid sleep {word} & sleep {word} & echo ready; wait"


def namespaces(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "pid_for_children", "mnt")}


def held() -> set[str]:
    """Every namespace that any process is in or holds open."""
    found = set()
    for process in processes():
        for link in [*process.glob("ns/*"), *process.glob("fd/*")]:
            try:
                found.add(os.readlink(link))
            except OSError:
                pass
    return found


class Kills(unittest.TestCase):
    def kill_one(self, victim: str, word: str, folder: str) -> None:
        process = start("run", "--hosts", "2", "--link", "10mbit,1ms", "--", "sh", "-c", HOST.format(word=word), cwd=folder, env={**os.environ, "TMPDIR": folder})
        for _ in range(2):
            self.assertIn("ready", process.stdout.readline())
        hosts = [pid for pid, name in children(process.pid).items() if name != "pliant-switch"]
        [switch] = [pid for pid, name in children(process.pid).items() if name == "pliant-switch"]
        theirs = set().union(*(namespaces(pid) for pid in [switch, *hosts])) - namespaces(os.getpid())
        self.assertGreaterEqual(len(theirs), 4)
        os.kill({"switch": switch, "host": hosts[0], "launcher": process.pid}[victim], signal.SIGKILL)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, {"switch": 1, "host": 137, "launcher": -9}[victim])
        self.assertTrue(until(lambda: not with_word(word)), f"processes left after killing the {victim}")
        self.assertTrue(until(lambda: not theirs & held()), f"namespaces left after killing the {victim}")

    def test_nothing_is_left(self) -> None:
        before = machine_network()
        leftovers = {p.name for place in ("/tmp", "/run", "/dev/shm") for p in Path(place).iterdir() if "pliant" in p.name}
        with tempfile.TemporaryDirectory() as folder:
            for i in range(KILLS):
                self.kill_one(("switch", "host", "launcher")[i % 3], f"62{os.getpid()}.{i:03}", folder)
            self.assertEqual(os.listdir(folder), [])
        after = {p.name for place in ("/tmp", "/run", "/dev/shm") for p in Path(place).iterdir() if "pliant" in p.name}
        self.assertEqual(after, leftovers)
        self.assertEqual(machine_network(), before)


if __name__ == "__main__":
    main()
