# SPDX-License-Identifier: MIT
"""The library's payloads, read by the second decoder; and those of tests/golden/payloads.json,
which must never change.

Usage: payload_golden_test.py PROGRAM   (PROGRAM is the built payload_golden)"""

import json
import struct
import subprocess
import sys
import unittest
from pathlib import Path

from payload_decoder import Corrupt, decode

GOLDEN = Path(__file__).parent / "golden" / "payloads.json"
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else ""


def printed(size: str) -> str:
    return subprocess.run(
        [PROGRAM, size], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def bits_of(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


class PayloadGolden(unittest.TestCase):
    def expect_decoded(self, case: dict) -> None:
        payload = decode(bytes.fromhex(case["bytes"]) + b"\xee" * 100)
        self.assertEqual({name: payload.header[name] for name in case["header"]}, case["header"])
        self.assertEqual(
            payload.header["flags"], case["contents"] | 4 * case["non_finite"] | 8 * case["refused"]
        )
        self.assertEqual(payload.indices or [], case["indices"])
        self.assertEqual([bits_of(value) for value in payload.values or []], case["value_bits"])

    def test_the_second_decoder_reads_what_the_library_writes(self) -> None:
        cases = json.loads(printed("small")) + json.loads(printed("large"))
        self.assertEqual(len(cases), 90)
        for case in cases:
            self.expect_decoded(case)

    def test_the_library_writes_what_it_always_wrote(self) -> None:
        self.assertEqual(printed("small"), GOLDEN.read_text())

    def test_the_second_decoder_can_refuse(self) -> None:
        good = bytes.fromhex(json.loads(GOLDEN.read_text())[0]["bytes"])
        for place in range(len(good)):
            with self.assertRaises(Corrupt):
                decode(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])


if __name__ == "__main__":
    unittest.main()
