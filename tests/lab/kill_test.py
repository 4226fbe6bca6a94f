# SPDX-License-Identifier: MIT
"""A hundred kills: whoever gets SIGKILL, no process, no namespace, no device, no file is left, and
the machine's network is untouched."""

import os
import signal
import tempfile
import unittest
from pathlib import Path

from support import children, machine_network, main, processes, start, until, with_word

KILLS = 100
AT_ONCE = 10
# A host that has a child, and a grandchild that has left its session.
HOST = "setsid sleep {word} & sleep {word} & echo ready; wait"


def namespaces(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "pid_for_children", "mnt")}


def names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # the process has just ended


def target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def held() -> set[str]:
    """Every namespace that any process is in or holds open."""
    found = set()
    for process in processes():
        for folder in ("ns", "fd"):
            found |= {target(process / folder / name) for name in names(process / folder)}
    return found


def pliant_files() -> set[str]:
    return {
        p.name
        for place in ("/tmp", "/run", "/dev/shm")
        for p in Path(place).iterdir()
        if "pliant" in p.name
    }


class Victim:
    """A lab of two hosts, and the one of its processes that is to be killed."""

    def __init__(self, who: str, word: str, folder: str) -> None:
        self.who = who
        command = [
            "run",
            "--hosts",
            "2",
            "--link",
            "10mbit,1ms",
            "--",
            "sh",
            "-c",
            HOST.format(word=word),
        ]
        self.process = start(*command, cwd=folder, env={**os.environ, "TMPDIR": folder})

    def find(self) -> set[str]:
        """Waits until both hosts run; returns the namespaces of the lab."""
        assert all("ready" in self.process.stdout.readline() for _ in range(2))
        parts = children(self.process.pid)
        [switch] = [pid for pid, name in parts.items() if name == "pliant-switch"]
        hosts = [pid for pid in parts if pid != switch]
        self.pid = {"switch": switch, "host": hosts[0], "launcher": self.process.pid}[self.who]
        return set().union(*(namespaces(pid) for pid in [switch, *hosts])) - namespaces(os.getpid())


class Kills(unittest.TestCase):
    def kill_some(self, word: str, folder: str) -> None:
        victims = [
            Victim(("switch", "host", "launcher")[i % 3], word, folder) for i in range(AT_ONCE)
        ]
        theirs = set().union(*(victim.find() for victim in victims))
        self.assertGreaterEqual(len(theirs), 4 * AT_ONCE)
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        for victim in victims:
            victim.process.communicate(timeout=30)
            self.assertEqual(
                victim.process.returncode, {"switch": 1, "host": 137, "launcher": -9}[victim.who]
            )
        self.assertTrue(until(lambda: not with_word(word)), "processes are left")
        self.assertTrue(until(lambda: not theirs & held()), "namespaces are left")

    def test_nothing_is_left(self) -> None:
        before = machine_network()
        files = pliant_files()
        with tempfile.TemporaryDirectory() as folder:
            for i in range(KILLS // AT_ONCE):
                self.kill_some(f"62{os.getpid()}.{i:03}", folder)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(pliant_files(), files)
        self.assertEqual(machine_network(), before)


if __name__ == "__main__":
    main()
