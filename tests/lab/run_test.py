# SPDX-License-Identifier: MIT
"""pliant-lab run and what can be said to a running lab."""

import json
import signal
import sys
import tempfile
import unittest
from pathlib import Path

from support import LAB, children, lab, machine_network, main, start, with_word

TCP = """
import os, socket
rank = int(os.environ["RANK"])
if rank == 0:
    server = socket.create_server(("10.77.0.1", 29500))
    connection, peer = server.accept()
    print(peer[0], len(connection.makefile("rb").read()))
else:
    for _ in range(200):
        try:
            connection = socket.create_connection(("10.77.0.1", 29500), timeout=20)
            break
        except OSError:
            import time; time.sleep(0.05)
    connection.sendall(bytes(1000000))
"""


class Run(unittest.TestCase):
    def test_environment_and_prefix(self) -> None:
        done = lab(
            "run",
            "--hosts",
            "3",
            "--",
            "sh",
            "-c",
            "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT $GLOO_SOCKET_IFNAME; "
            "echo oops >&2",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            sorted(done.stdout.splitlines()),
            [f"[host {i}] {i} 3 0 10.77.0.1:29500 lab0" for i in range(3)],
        )
        self.assertEqual(sorted(done.stderr.splitlines()), [f"[host {i}] oops" for i in range(3)])

    def test_several_ranks_in_a_host(self) -> None:
        done = lab(
            "run",
            "--hosts",
            "2",
            "--ranks-per-host",
            "3",
            "--",
            "sh",
            "-c",
            "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $PLIANT_LAB_HOST; "
            "ip route get 10.77.0.$((PLIANT_LAB_HOST + 1)) | grep -c 'dev lo'",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = []
        for rank in range(6):
            prefix = f"[host {rank // 3} rank {rank}]"
            expected += [f"{prefix} {rank} 6 {rank % 3} 3 {rank // 3}", f"{prefix} 1"]
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(expected))

    def test_real_packets(self) -> None:
        done = lab("run", "--hosts", "2", "--link", "100mbit,2ms", "--", sys.executable, "-c", TCP)
        self.assertEqual(done.stdout, "[host 0] 10.77.0.2 1000000\n", done.stderr)

    def test_every_mtu_and_a_lossy_link(self) -> None:
        for options in (
            ["--mtu", "576"],
            ["--mtu", "65000"],
            ["--link", "20mbit,1ms,jitter=1ms,loss=1%,reorder=1%,queue=50p"],
        ):
            done = lab("run", "--hosts", "2", *options, "--", sys.executable, "-c", TCP)
            self.assertEqual(done.stdout, "[host 0] 10.77.0.2 1000000\n", done.stderr)

    def test_status_of_the_first_host_that_fails(self) -> None:
        done = lab(
            "run", "--hosts", "3", "--", "sh", "-c", "test $RANK = 1 && exit 17; exec sleep 61001"
        )
        self.assertEqual(done.returncode, 17)
        self.assertIn("host 1 ended with status 17; ending the others", done.stderr)
        self.assertEqual(with_word("61001"), [])

    def test_hosts_that_will_not_end_are_killed(self) -> None:
        done = lab(
            "run",
            "--hosts",
            "2",
            "--",
            "sh",
            "-c",
            'trap "" TERM INT; test $RANK = 1 && exit 3; while :; do sleep 0.1; done',
        )
        self.assertEqual(done.returncode, 3)

    def test_what_a_host_leaves_in_the_background_ends_with_it(self) -> None:
        done = lab("run", "--hosts", "2", "--", "sh", "-c", "setsid sleep 61002 & exit 0")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(with_word("61002"), [])

    def test_timeout(self) -> None:
        done = lab("run", "--hosts", "2", "--timeout", "300ms", "--", "sleep", "61003")
        self.assertEqual(done.returncode, 124)
        self.assertEqual(with_word("61003"), [])

    def test_signals_end_everything(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = start("run", "--hosts", "2", "--", "sh", "-c", "echo ready; exec sleep 61004")
            self.assertIn("ready", process.stdout.readline())
            process.send_signal(number)
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, 128 + number)
            self.assertEqual(with_word("61004"), [])

    def test_ended_by_a_signal(self) -> None:
        self.assertEqual(lab("run", "--hosts", "1", "--", "sh", "-c", "kill -9 $$").returncode, 137)

    def test_the_machine_is_as_before(self) -> None:
        before = machine_network()
        lab("run", "--hosts", "4", "--link", "10mbit,1ms", "--", "true")
        self.assertEqual(machine_network(), before)

    def test_shell(self) -> None:
        done = lab(
            "shell",
            "--hosts",
            "2",
            "--",
            "sh",
            "-c",
            f"ip -br addr show lab0 && {LAB} exec 1 -- ip -br addr show lab0; exit 5",
        )
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(done.stdout.count("10.77.0.1/24"), 1)
        self.assertEqual(done.stdout.count("10.77.0.2/24"), 1)


class Control(unittest.TestCase):
    def test_from_inside_a_host(self) -> None:
        script = f"{LAB} set --host 1 --link 1mbit,300ms && {LAB} down 0 && {LAB} phase slow && {LAB} status --json"
        done = lab(
            "run",
            "--hosts",
            "2",
            "--timeline",
            "step",
            "--",
            "sh",
            "-c",
            f"test $RANK = 1 || exit 0; {script}",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        hosts = json.loads(done.stdout.split("] ", 1)[1])["hosts"]
        self.assertEqual(
            [h["summary"] for h in hosts], ["10 Mbit/s, 10 ms, down", "10 Mbit/s, 300 ms"]
        )

    def test_one_line_to_the_socket(self) -> None:
        talk = 'import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(os.environ["PLIANT_LAB_CONTROL"])\ns.sendall(b"phase slow\\n")\nprint(s.recv(99))'
        done = lab("run", "--hosts", "1", "--timeline", "step", "--", sys.executable, "-c", talk)
        self.assertEqual(done.stdout, "[host 0] b'ok\\n'\n", done.stderr)

    def test_from_another_terminal(self) -> None:
        process = start(
            "run",
            "--hosts",
            "2",
            "--link",
            "10mbit,1ms",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 61005",
        )
        self.assertIn("ready", process.stdout.readline())
        which = [
            "--lab",
            next(
                str(pid) for pid, name in children(process.pid).items() if name == "pliant-switch"
            ),
        ]
        self.assertEqual(lab("set", *which, "--host", "1", "--link", "5mbit").returncode, 0)
        self.assertEqual(lab("down", *which, "0").returncode, 0)
        self.assertEqual(lab("up", *which, "0").returncode, 0)
        self.assertIn("5 Mbit/s, 1 ms", lab("status", *which).stdout)
        self.assertIn("10.77.0.2", lab("exec", *which, "1", "--", "ip", "addr").stdout)
        refused = lab("set", *which, "--host", "9", "--link", "5mbit")
        self.assertEqual((refused.returncode, "hosts 0 to 1" in refused.stderr), (2, True))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    def test_truth_log(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            truth = Path(folder) / "truth.jsonl"
            done = lab(
                "run",
                "--hosts",
                "2",
                "--timeline",
                "step",
                "--scale-time",
                "0.01",
                "--truth",
                str(truth),
                "--",
                "sleep",
                "1.2",
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            records = [json.loads(line) for line in truth.read_text().splitlines()]
        self.assertEqual(records[0]["type"], "header")
        self.assertEqual(records[-1]["type"], "end")
        self.assertEqual([r["phase"] for r in records if r["type"] == "phase"], ["slow", "fast"])
        rates = [
            r["link"]["out"]["rate_bits_per_second"]
            for r in records
            if r["type"] == "link" and r["host"] == 0
        ]
        self.assertEqual(rates, [100e6, 10e6, 100e6])
        self.assertLessEqual({"mono", "wall"}, set.intersection(*(set(r) for r in records)))
        self.assertLessEqual(
            {"late_mean_s", "late_max_s", "cpu_s", "waited_for_cpu_s"},
            set(next(r for r in records if r["type"] == "switch")),
        )
        self.assertLessEqual(
            {"bytes", "dropped_queue", "queue_delay_mean_s"},
            set(next(r for r in records if r["type"] == "second")["in"]),
        )

    def test_counters_count(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            truth = Path(folder) / "truth.jsonl"
            lab("run", "--hosts", "2", "--truth", str(truth), "--", sys.executable, "-c", TCP)
            seconds = [
                json.loads(line) for line in truth.read_text().splitlines() if '"second"' in line
            ]
        self.assertGreater(sum(r["out"]["bytes"] for r in seconds if r["host"] == 1), 1_000_000)
        self.assertEqual(
            sum(r["out"]["bytes"] for r in seconds if r["host"] == 1),
            sum(r["in"]["bytes"] for r in seconds if r["host"] == 0),
        )


class Input(unittest.TestCase):
    def test_refused_with_the_fix(self) -> None:
        for arguments, fix in {
            ("run", "--hosts", "2"): "put it after --",
            ("run", "--hosts", "0", "--", "true"): "between 1 and 200",
            ("run", "--link", "100", "--", "true"): "write a rate as 100mbit",
            ("run", "--link", "100mbps", "--", "true"): "mean two things",
            ("run", "--host", "5=1mbit", "--", "true"): "hosts 0 to 1",
            ("run", "--host", "1mbit", "--", "true"): "3=20mbit,80ms",
            ("run", "--timeline", "c3", "--", "true"): "did you mean 'c1'",
            ("run", "--timeout", "5", "--", "true"): "no unit",
            ("run", "--mtu", "9", "--", "true"): "576 to 65000",
            ("run", "--scale-time", "0", "--", "true"): "above 0",
            ("run", "--truth", "/does/not/exist", "--", "true"): "No such file",
            ("run", "--", "no-such-program"): "not a program",
            ("run", "--timelin", "c1", "--", "true"): "did you mean '--timeline'",
            ("runn", "--hosts", "2", "--", "true"): "did you mean 'run'",
            ("status", "--lab", "1"): "lab",
            ("timelines", "wify"): "did you mean 'wifi'",
        }.items():
            done = lab(*arguments)
            self.assertIn(fix, done.stderr, arguments)
            self.assertEqual(
                done.returncode, 1 if arguments[0] == "status" else 2, (arguments, done.stderr)
            )
            self.assertTrue(done.stderr.startswith("pliant-lab: "), done.stderr)

    def test_dry_run(self) -> None:
        done = lab(
            "run",
            "--hosts",
            "2",
            "--timeline",
            "c1",
            "--scale-bandwidth",
            "0.01",
            "--dry-run",
            "--",
            "true",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("would start 2 hosts, MTU 9000", "10.77.0.2", "epoch-13", "10 Mbit/s, 1 ms"):
            self.assertIn(word, done.stdout)

    def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            csv, trace = Path(folder) / "a.csv", Path(folder) / "b.trace"
            csv.write_text("t,rate,delay,loss\n0s,10mbit,5ms,0%\n30s,1mbit,50ms,1%\n")
            trace.write_text("1\n2\n3\n")
            self.assertIn(
                "1 Mbit/s, 50 ms, loss 1 %",
                lab("run", "--timeline", str(csv), "--dry-run", "--", "true").stdout,
            )
            self.assertIn(
                "trace of 12 Mbit/s",
                lab("run", "--timeline", str(trace), "--dry-run", "--", "true").stdout,
            )
            done = lab(
                "run", "--hosts", "2", "--timeline", str(trace), "--", sys.executable, "-c", TCP
            )
            self.assertEqual(done.stdout, "[host 0] 10.77.0.2 1000000\n", done.stderr)

    def test_shipped_timelines_can_be_printed(self) -> None:
        self.assertIn("[[phase]]", lab("timelines", "c2").stdout)
        self.assertEqual(len(lab("timelines").stdout.splitlines()), 8)


if __name__ == "__main__":
    main()
