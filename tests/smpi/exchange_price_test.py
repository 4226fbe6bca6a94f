# SPDX-License-Identifier: MIT
"""Real exchanges, executed in simulated time, take what price_exchange() says, and so do their
hollow twins."""

from __future__ import annotations

import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import exchange  # noqa: E402
import pliant_bench  # noqa: E402

TOLERANCE = 0.02
LINK = "10gbit,50us"


class ExchangePrice(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        with ThreadPoolExecutor(2) as pool:
            cls.grid = exchange.price_grid(
                pool, ranks={3: 100_000, 8: 100_000, 13: 50_000}, links=(LINK,)
            )

    def test_price_is_the_executed_time(self) -> None:
        for point in self.grid:
            with self.subTest(plan=point["plan"], ranks=point["ranks"]):
                self.assertLess(point["error"], TOLERANCE)

    def test_nothing_is_lost_in_simulation(self) -> None:
        self.assertEqual([point["plan"] for point in self.grid if point["wrong"] != 0], [])

    def test_every_plan_was_run(self) -> None:
        self.assertEqual(
            len(self.grid), 3 * (2 * len(exchange.PRICED_PLANS) + len(exchange.PRICED_DENSE))
        )

    def test_hollow_messages_are_as_large_as_real_ones(self) -> None:
        plans = [plan.format("2%") for plan in exchange.PRICED_PLANS] + exchange.PRICED_DENSE
        asked = [word for plan in plans for word in ("--plan", exchange.in_words(plan))]
        real, hollow = (
            pliant_bench.simulated(
                5, LINK, "--params", "100K", "--reference", "none", *asked, checks=checks
            )
            for checks in (1, 0)
        )
        self.assertEqual((real["hollow"], hollow["hollow"]), (False, True))
        for one, other in zip(real["results"], hollow["results"], strict=True):
            with self.subTest(plan=one["plan"]):
                self.assertLess(pliant_bench.price_error(other), TOLERANCE)
                if one["scheme"] != "shared":  # there the rank that sends most depends on who leads
                    self.assertAlmostEqual(other["wire_bytes"] / one["wire_bytes"], 1, delta=0.01)
                    self.assertEqual(other["messages"], one["messages"])

    def test_the_published_schemes_take_what_their_formulas_say(self) -> None:
        plans = [plan.format("1%") for plan in exchange.ITS_SCHEMES.values()]
        asked = [word for plan in plans for word in ("--plan", exchange.in_words(plan))]
        results = pliant_bench.simulated(
            8, "10gbit,1ms", "--params", "25.56M", "--reference", "none", *asked
        )["results"]
        for scheme, result in zip(exchange.ITS_SCHEMES, results, strict=True):
            self.assertAlmostEqual(
                result["seconds"] / exchange.formula(scheme, 25.56e6, 0.01, 10), 1, delta=0.05
            )


if __name__ == "__main__":
    unittest.main()
