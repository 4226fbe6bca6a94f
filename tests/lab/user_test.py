# SPDX-License-Identifier: MIT
"""The same commands as an ordinary user. As root, the test makes one: a user, a TUN device and a
copy of the program that exist only in a mount namespace of the test's own, so the machine is not
touched."""

import os
import shutil
import subprocess
import tempfile
import unittest

from support import LAB, LONGEST, lab, main, processes, read, until, with_word

USER = 54321

# $1 the mode of the device, $2 the program, $3 a script to run as the user with $LAB set
AS_USER = """
set -e
mount -t tmpfs none "$STAGE"
cp "$2" "$STAGE/pliant-lab"
cp /etc/passwd "$STAGE/passwd"
echo "labuser:x:{user}:{user}::/tmp:/bin/sh" >> "$STAGE/passwd"
mount --bind "$STAGE/passwd" /etc/passwd
mknod "$STAGE/tun" c 10 200
chmod "$1" "$STAGE/tun"
chmod 755 "$STAGE" "$STAGE/pliant-lab"
mount --bind "$STAGE/tun" /dev/net/tun
cd /
LAB="$STAGE/pliant-lab" HOME=/tmp exec setpriv --reuid labuser --regid {user} --clear-groups sh -c "$3"
"""


def as_user_command(mode: str, script: str) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", AS_USER.format(user=USER), "sh", mode, LAB, script]


def switches(user: int) -> list[int]:
    """Processes of a user that go by the name of the switch."""
    return [
        int(process.name)
        for process in processes()
        if read(process / "comm").strip() == "pliant-switch"
        and f"Uid:\t{user}\t" in read(process / "status")
    ]


def as_user(mode: str, script: str) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        return subprocess.run(
            ["sh", "-c", script],
            env={**os.environ, "LAB": os.path.abspath(LAB)},
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
    with tempfile.TemporaryDirectory() as stage:
        return subprocess.run(
            as_user_command(mode, script),
            env={**os.environ, "STAGE": stage},
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )


@unittest.skipUnless(shutil.which("setpriv") and shutil.which("unshare"), "no setpriv here")
class User(unittest.TestCase):
    def test_runs_hosts(self) -> None:
        done = as_user(
            "666", '$LAB run --hosts 2 --link 10mbit,1ms -- sh -c "ip -br addr show lab0; exit 0"'
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("10.77.0.1/24", done.stdout)
        self.assertIn("10.77.0.2/24", done.stdout)

    def test_controls_from_inside_and_outside(self) -> None:
        inside = "$LAB set --host 1 --link 3mbit,1ms && $LAB phase slow && $LAB exec 1 -- true && $LAB status"
        outside = "$LAB status && $LAB set --link 7mbit && $LAB status && $LAB exec 1 -- ip addr"
        job = f"$LAB run --hosts 2 --timeline step -- sh -c 'test $RANK = 1 || {{ {inside}; }}; exec sleep 3' & sleep 1.5; {outside}; wait"
        done = as_user("666", job)
        self.assertIn("10 Mbit/s, 1 ms", done.stdout, done.stderr)
        self.assertIn("7 Mbit/s", done.stdout, done.stderr)
        self.assertIn("10.77.0.2", done.stdout, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can try another user's lab")
    def test_root_does_not_enter_the_lab_of_another_user(self) -> None:
        with tempfile.TemporaryDirectory() as stage:
            job = subprocess.Popen(
                as_user_command("666", "exec $LAB run --hosts 1 -- sleep 61009"),
                env={**os.environ, "STAGE": stage},
                stdin=subprocess.DEVNULL,
            )
            try:
                self.assertTrue(until(lambda: bool(with_word("61009")) and bool(switches(USER))))
                [switch] = switches(USER)
                for command in (
                    ("exec", "--lab", str(switch), "0", "--", "true"),
                    ("set", "--lab", str(switch), "--link", "1mbit"),
                    ("status", "--lab", str(switch)),
                ):
                    done = lab(*command)
                    self.assertEqual(done.returncode, 2, done)
                    self.assertIn(f"lab {switch} belongs to user {USER}", done.stderr)
            finally:
                job.terminate()
                job.wait(LONGEST)

    @unittest.skipUnless(shutil.which("mpirun"), "no Open MPI here")
    def test_runs_mpi(self) -> None:
        done = as_user("666", "$LAB mpirun --hosts 2 --timeout 50s -- hostname")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            sorted(line[:8] for line in done.stdout.splitlines()),
            ["[host 0]", "[host 1]"],
            done.stdout,
        )

    @unittest.skipUnless(os.geteuid() == 0, "only root can close a device")
    def test_a_closed_device_says_how_to_open_it(self) -> None:
        done = as_user("600", "$LAB run --hosts 2 -- true")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("opening /dev/net/tun: Permission denied", done.stderr)
        self.assertIn("chmod 0666 /dev/net/tun", done.stderr)


if __name__ == "__main__":
    main()
