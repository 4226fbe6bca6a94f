# SPDX-License-Identifier: MIT
"""The arithmetic behind the evidence: curves, targets, the published system's choices, networks by
step."""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import figures
import torch
from evidence import __main__ as main
from evidence import (
    document,
    jobs,
    judge,
    kept,
    networks,
    paper,
    published,
    runs,
    specs,
    study,
    unseen,
    unseen_jobs,
)
from evidence.curves import Curve, composed, measured
from evidence.judge import Judge, over
from evidence.seen import Seen
from torch import nn
from torch.nn import functional


def curve(times: list[float], losses: list[float]) -> Curve:
    return Curve(
        tuple(times),
        tuple(range(8, 8 * len(times) + 1, 8)),
        tuple(losses),
        tuple(1 - loss / 4 for loss in losses),
    )


class Curves(unittest.TestCase):
    def test_arrival_lies_between_two_evaluations(self) -> None:
        self.assertAlmostEqual(curve([1, 2, 3], [2.0, 1.0, 0.5]).time_to_loss(0.75) or 0, 2.5)
        self.assertEqual(curve([1, 2], [2.0, 1.0]).time_to_loss(2.5), 1)
        self.assertIsNone(curve([1, 2], [2.0, 1.0]).time_to_loss(0.5))

    def test_between_two_evaluations_by_a_straight_line(self) -> None:
        made = curve([1, 2, 3], [2.0, 1.0, 0.5])  # after 8, 16 and 24 steps
        self.assertEqual(
            [made.at_step(step)[0] for step in (4, 8, 12, 20, 24, 30)],
            [2.0, 2.0, 1.5, 0.75, 0.5, 0.5],
        )

    def test_accuracy_is_reached_from_below(self) -> None:
        self.assertAlmostEqual(curve([1, 2, 3], [2.0, 1.0, 0.5]).time_to_accuracy(0.75) or 0, 2.0)

    def test_composition_adds_up_the_phases(self) -> None:
        trained = {"losses": [1.0] * 16, "curve": [(8, 1.0, 0.5), (16, 0.5, 0.6)]}
        made = composed(trained, [(0, 1.0), (8, 3.0)])
        self.assertEqual(made.times, (8.0, 32.0))
        self.assertEqual(composed(trained, [(0, 1.0), (8, 3.0)], [(0, 2.0)], 4).times, (12.0, 36.0))

    def test_one_lucky_evaluation_is_no_arrival(self) -> None:
        """In a run of 640 steps; of a short one, where neighbours are a good part of it, nothing is
        smoothed."""
        curve = [(step, 0.1 if step == 320 else 2.0, 0) for step in range(8, 641, 8)]
        self.assertGreater(min(measured({"ends": [1.0] * 640, "curve": curve}).losses), 1.7)
        self.assertEqual(
            min(
                measured(
                    {"ends": [1.0] * 96, "curve": [(8, 2.0, 0), (16, 0.1, 0), (96, 2.0, 0)]}
                ).losses
            ),
            0.1,
        )


class Evaluation(unittest.TestCase):
    def test_accuracy_is_a_share_of_the_answers(self) -> None:
        """Whatever shape answers have: one for a sample, or one for every place of a text."""
        for answers in (torch.arange(600) % 10, torch.arange(2400).reshape(600, 4) % 10):
            right = functional.one_hot(answers, 10).float()
            outputs = right.unsqueeze(1) if answers.dim() == 1 else right
            outputs[:150] = outputs[:150].roll(1, dims=-1)  # wrong
            job = jobs.Job(
                "made up",
                nn.Identity,
                lambda _, pair=(outputs, answers): pair,
                1,
                "sgd",
                0.1,
                1,
                tested=600,
            )
            loss, accuracy = jobs.evaluate(job, nn.Identity())
            self.assertEqual(accuracy, 0.75)
            self.assertGreater(loss, 0)


class Judging(unittest.TestCase):
    def test_ratios_are_theirs_over_ours(self) -> None:
        slow, fast = curve([10, 20, 30], [2.0, 1.0, 0.5]), curve([1, 2, 3], [2.0, 1.0, 0.5])
        never = curve([1, 2, 3], [2.0, 1.9, 1.8])
        judge = Judge({("ddp", 1): slow, ("auto", 1): fast, ("fp16", 1): never})
        self.assertTrue(all(abs(ratio - 10) < 1e-9 for ratio in judge.ratios("ddp")))
        self.assertEqual(judge.best(["fp16", "ddp"]), "ddp")
        self.assertTrue(math.isinf(max(judge.ratios("fp16"))))
        self.assertEqual(over(math.inf, math.inf), 1.0)

    def test_a_speedup_is_of_medians_over_seeds(self) -> None:
        """Seeds 1 and 2 alone would say 90x and 5x."""
        losses = [2.0, 1.0, 0.5]
        theirs, ours = {1: 90, 2: 10, 3: 20}, {1: 1, 2: 2, 3: 4}
        curves = {
            (name, seed): curve([scale * t for t in (1, 2, 3)], losses)
            for name, scales in (("ddp", theirs), ("auto", ours))
            for seed, scale in scales.items()
        }
        judge = Judge(curves)
        self.assertTrue(
            all(abs(ratio - 10) < 1e-9 for ratio in judge.speedups("ddp")), judge.speedups("ddp")
        )
        self.assertEqual(sorted({round(ratio) for ratio in judge.ratios("ddp")}), [5, 90])


class Kept(unittest.TestCase):
    """Every number of the document comes from docs/results."""

    STUDY = study.Study("cnn", "c1", 5)

    def record(self, methods: dict[str, list[float]], **facts: object) -> kept.Record:
        """Curves of 80 evaluations whose loss falls from the first number to the second, a second
        for each evaluation times the third."""
        curves = {}
        for name, (first, last, pace) in methods.items():
            losses = [first + (last - first) * i / 79 for i in range(80)]
            curves[name, 1] = curve([pace * (i + 1) for i in range(80)], losses)
        seen = {key: Seen(1e3, 0.25, 2, [i / 100 for i in range(101)]) for key in curves}
        return kept.Record(curves, seen, {"auto": {"every": {"4": 1.0}}}, ran="2026-01-31", **facts)  # type: ignore[arg-type]

    def test_what_is_read_says_what_was_written(self) -> None:
        written = self.record(
            {"ddp": [2, 1, 5], "auto": [2, 1, 1]},
            checks=[kept.Check("ddp", 11.0, 10.0)],
            failures={"fp16, seed 1": "it broke"},
            stretch=0.5,
            note="a note",
        )
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(kept.read(Path(folder), self.STUDY))
            kept.write(Path(folder), self.STUDY, written)
            found = kept.read_all(Path(folder), [study.Study("cnn", "c2", 5), self.STUDY])
        self.assertEqual(list(found), [self.STUDY])
        read = found[self.STUDY]
        before, after = Judge(written.curves), Judge(read.curves)
        for theirs, ours in zip(
            before.times("auto", 1) + before.targets(),
            after.times("auto", 1) + after.targets(),
            strict=True,
        ):
            self.assertAlmostEqual(theirs, ours, delta=0.01 * theirs)
        self.assertAlmostEqual(after.speedups("ddp")[0], 5, places=2)
        self.assertEqual(
            [round(error, 2) for error in read.seen["auto", 1].errors],
            [i / 10 for i in range(1, 10)],
        )
        self.assertEqual(
            (read.plans, read.checks, read.failures, read.stretch, read.ran, read.note),
            (written.plans, written.checks, written.failures, 0.5, "2026-01-31", "a note"),
        )

    def test_what_has_not_run_is_named(self) -> None:
        runs = {
            "ddp": [2, 1, 5],
            "auto": [2, 1, 1],
            "local-8": [2, 1.2, 1],
            "fp16": [2, 1.9, 1],
        }  # fp16 is too far away to train on
        records = {self.STUDY: self.record(runs, failures={"powersgd-1, seed 1": "it broke"})}
        wanted = {
            self.STUDY: ("ddp", "powersgd-1", "auto", "local-8", "fp16", "paper"),
            study.Study("cnn", "c2", 5): ("ddp",),
        }
        self.assertEqual(
            document.missing(wanted, records),
            {"cnn/c1/5x": ["paper", "local-8, longer"], "cnn/c2/5x": ["ddp"]},
        )

    def test_a_study_cut_short_leaves_what_was_kept(self) -> None:
        before = self.record({"ddp": [2, 1, 5], "auto": [2, 1, 1]})
        with tempfile.TemporaryDirectory() as folder:
            kept.write(Path(folder), self.STUDY, before)
            for whole, shown in ((False, 5), (True, 7)):
                with (
                    mock.patch.object(
                        main,
                        "run_study",
                        return_value=(self.record({"ddp": [2, 1, 7], "auto": [2, 1, 1]}), whole),
                    ),
                    mock.patch.object(main.seen, "report_page"),
                ):
                    self.assertEqual(
                        main.run(mock.Mock(), {self.STUDY: ("ddp", "auto")}, (1,), Path(folder)),
                        whole,
                    )
                read = kept.read(Path(folder), self.STUDY)
                assert read is not None
                self.assertAlmostEqual(Judge(read.curves).speedups("ddp")[0], shown, places=2)

    def test_the_document_is_what_the_kept_runs_say(self) -> None:
        docs = figures.ROOT / "docs"
        records = kept.read_all(docs / "results", main.WANTED)
        self.assertEqual(set(records), set(main.STUDIES))
        others = unseen.read_all(docs / "results")
        self.assertEqual(set(others), set(unseen.STUDIES))
        found = main.all_figures(records, others)
        self.assertLessEqual(set(main.MARKS) | set(main.LIMITS), {figure.name for figure in found})
        with tempfile.TemporaryDirectory() as folder:
            written = document.write(
                Path(folder), main.WANTED, records, found, main.missed(found), others
            )
            self.assertGreaterEqual(sum(name.endswith(".svg") for name in written), 5)
            for name in written:
                self.assertEqual(
                    (Path(folder) / name).read_text(),
                    (docs / name).read_text(),
                    f"{name}: `make evidence HOURS=0` writes it anew",
                )

    def test_the_readme_has_the_same_figures(self) -> None:
        records = kept.read_all(figures.ROOT / "docs/results", main.WANTED)
        found = {figure.name: figure for figure in main.figures_of(records)}
        readme = " ".join((figures.ROOT / "README.md").read_text().split())
        for name, said in (
            ("tta_over_ddp/c1", "**{}x sooner** | {}x to {}x |"),
            ("tta_over_ddp_50x/c1", "**{}x sooner** | {}x to {}x |"),
            ("tta_over_ddp/c2", "Pliant is {}x sooner ({}x to {}x)"),
            ("harm/fast_stable", "{} of plain DDP's time for the same steps | {} to {} |"),
            ("accuracy_delta", "by {} points ({} to {})"),
        ):
            figure = found[name]
            words = said.format(*(f"{x:.2g}" for x in (figure.value, figure.low, figure.high)))
            self.assertIn(words, readme, name)
        others = {
            f.name: f for f in unseen.figures_of(unseen.read_all(figures.ROOT / "docs/results"))
        }
        for name, scale, said in (
            ("unseen/speedup_steps", 1, "{}x faster ({}x to {}x)"),
            ("unseen/loss_gap_end", 100, "{} % higher ({} to {} %)"),
            ("unseen/tta_over_ddp", 1, "losses {}x sooner ({}x to {}x)"),
        ):
            figure = others[name]
            spread = (scale * x for x in (figure.value, figure.low, figure.high))
            self.assertIn(said.format(*(f"{x:.2g}" for x in spread)), readme, name)
        for job in ("cnn", "resnet", "transformer"):
            self.assertIn(f"{round(study.entries(job), -3):,}", readme, job)


class Published(unittest.TestCase):
    def test_its_formulas_give_its_table(self) -> None:
        cells = published.cells()
        self.assertEqual(len(cells), 108)
        found = {figure.name: figure.value for figure in published.figures_of_the_table()}
        self.assertLess(found["published_table_deviation"], 0.05)
        self.assertEqual(found["published_table_same_winner"], 36)

    def test_knee_is_neither_end_of_a_convex_front(self) -> None:
        gains = dict(zip(paper.DENSITIES, (0.9, 0.8, 0.65, 0.4, 0.2), strict=True))
        chosen = paper.choose(networks.Link(1e-3, 1e9), 11_690_000, 8, gains)
        self.assertNotIn(chosen.density, (paper.DENSITIES[0], paper.DENSITIES[-1]))
        self.assertIn(f"density={100 * chosen.density:g}%", paper.plan_of(chosen))


class Networks(unittest.TestCase):
    def test_shapes_of_the_reference(self) -> None:
        self.assertEqual([first for first, _ in networks.C1.phases(500)], [0, 120, 240, 360])
        c2 = networks.NETWORKS["c2"]
        self.assertEqual(
            [round(link.latency * 1e3) for link in c2.links],
            [1, 2, 4, 8, 16, 32, 32, 16, 8, 4, 2, 1, 1],
        )

    def test_load_is_what_it_says_and_proportions_stay(self) -> None:
        for network in networks.NETWORKS.values():
            stretch = networks.stretch_for(network, 5, 0.06, 100_000, 4, 11_690_000)
            size = 100_000 / 11_690_000
            mean = sum(
                s * networks.dense_time(networks.Link(x.latency, x.rate / x.slow_host), 100_000, 4)
                for s, x in zip(
                    network.shares,
                    (link.scaled(size, stretch) for link in network.links),
                    strict=True,
                )
            )
            self.assertAlmostEqual(mean, 0.3, places=9)
            before, after = network.links[0], network.links[0].scaled(size, stretch)
            self.assertAlmostEqual(
                after.latency * after.rate / (before.latency * before.rate), size
            )

    def test_load_is_set_by_what_ddp_takes(self) -> None:
        compute, network = 0.06, networks.NETWORKS["c1"]

        class Lab:
            """Where an exchange takes 1.8 times what the formula says."""

            def result(self, spec: specs.Spec) -> dict[str, object]:
                return {
                    "timed": [
                        {"mean": compute + 1.8 * self.dense(phase.link)} for phase in spec.phases
                    ]
                }

            @staticmethod
            def dense(link: str) -> float:
                rate, latency = link.split(",")
                return networks.dense_time(
                    networks.Link(
                        float(latency.removesuffix("ms")) / 1e3,
                        float(rate.removesuffix("mbit")) * 1e6,
                    ),
                    study.entries("cnn"),
                    4,
                )

        wanted = study.Study("cnn", "c1", 5)
        by_formula = networks.stretch_for(network, 5, compute, study.entries("cnn"), 4, 11_690_000)
        self.assertAlmostEqual(study.stretch(wanted, Lab()) / by_formula, 1 / 1.8, places=2)  # type: ignore[arg-type]

    def test_a_run_is_known_by_what_it_is(self) -> None:
        one = specs.Spec("train", "cnn", "ddp", 1, 4, 100)
        self.assertEqual(
            one.digest(), specs.Spec("train", "cnn", "ddp", 1, 4, 100, out="elsewhere").digest()
        )
        self.assertNotEqual(one.digest(), specs.Spec("train", "cnn", "ddp", 2, 4, 100).digest())


class Unseen(unittest.TestCase):
    STUDY = unseen.STUDIES[0]

    @staticmethod
    def loss_after(steps: float) -> float:
        return 4 - 0.5 * math.log(steps)

    def record(self) -> unseen.Record:
        """Plain DDP takes 2 s a step. Goal steps: 0.5 s, and the loss of nine tenths of the steps.
        Goal time: a quarter more steps of 0.25 s, and plain DDP's loss."""

        def run(method: str, steps: int, seconds: float, worth: float, learnt: float) -> unseen.Run:
            curve = [
                (step, seconds * step, self.loss_after(worth * step))
                for step in range(steps // 10, steps + 1, steps // 10)
            ]
            effective = None if method == "ddp" else learnt * steps
            return unseen.Run(method, 1, curve[-1][2], effective, curve)

        return unseen.Record(
            [
                run("ddp", 200, 2, 1, 1),
                run("auto-steps", 200, 0.5, 0.9, 0.99),
                run("auto", 250, 0.25, 0.8, 0.8),
            ],
            [(1, steps, self.loss_after(steps)) for steps in (130, 160, 180)],
            {"auto-steps": {"scheme": {"gradients dense": 1.0}}},
        )

    def test_figures_are_what_the_runs_did(self) -> None:
        record = self.record()
        self.assertAlmostEqual(
            record.gaps()[0], self.loss_after(180) / self.loss_after(200) - 1, places=6
        )
        self.assertAlmostEqual(record.speedup(), 4)
        self.assertAlmostEqual(record.sooner(), 2 / 0.25 * 0.8, places=1)
        self.assertAlmostEqual(record.measured("auto-steps"), 0.9, places=6)
        self.assertAlmostEqual(record.measured("auto"), 0.8, places=6)
        errors = unseen.worth_errors(record)
        self.assertAlmostEqual(errors["auto-steps"], 0.1, places=6)
        self.assertAlmostEqual(errors["auto"], 0, places=6)

    def test_what_is_kept_says_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(unseen.figures_of(unseen.read_all(Path(folder))), [])
            unseen.write(Path(folder), self.STUDY, self.record())
            kept_ones = unseen.read_all(Path(folder))
        self.assertEqual(list(kept_ones), [self.STUDY])
        for made, read in zip(
            unseen.figures_of({self.STUDY: self.record()}),
            unseen.figures_of(kept_ones),
            strict=True,
        ):
            self.assertEqual(made.name, read.name)
            self.assertAlmostEqual(made.value, read.value, places=3)

    def test_plain_ddp_that_learns_nothing_tells_no_worth(self) -> None:
        self.assertTrue(math.isnan(judge.steps_by_line(1.0, [(100, 1.0), (200, 1.1)])))

    def test_every_schedule_ends_near_zero(self) -> None:
        for job in unseen_jobs.UNSEEN.values():
            assert job.make_optimizer is not None
            optimizer = job.make_optimizer(iter([nn.Parameter(torch.ones(2))]), job.rate)
            schedule, rates = job.schedule(optimizer, 100), []
            for _ in range(100):
                optimizer.step()
                rates.append(optimizer.param_groups[0]["lr"])
                schedule.step()
            self.assertGreater(max(rates), 0.9 * job.rate, job.name)
            self.assertLess(rates[-1], 0.03 * job.rate, job.name)

    def test_generated_data_is_the_same_every_time(self) -> None:
        for name in ("unet", "table"):
            job = unseen_jobs.UNSEEN[name]
            first = job.load("test")
            jobs._cache.clear()
            for one, other in zip(first, job.load("test"), strict=True):
                self.assertTrue(torch.equal(one, other), name)


class Runs(unittest.TestCase):
    def test_one_that_fails_does_not_take_the_others_along(self) -> None:
        wanted = [
            specs.Spec("train", "cnn", method, 1, 4, 100) for method in ("ddp", "fp16", "local-8")
        ]
        started: list[int] = []

        def ranks(hosts: int, command: list[str], limit: float) -> str:
            started.append(len(command) - 3)
            for path in command[3:]:
                spec = specs.read(Path(path))
                if spec.method == "fp16":
                    return "it broke"
                Path(spec.out).write_text(json.dumps({"method": spec.method}))
            return ""

        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(runs, "_on_loopback", ranks),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            runner = runs.Runner(60, Path(folder))
            runner.prepare(wanted)
            self.assertEqual(started, [3, 1])
            self.assertEqual(
                [runner.result(wanted[i])["method"] for i in (0, 2)], ["ddp", "local-8"]
            )
            with self.assertRaisesRegex(RuntimeError, "it broke"):
                runner.result(wanted[1])
            runner.prepare(wanted)
            self.assertEqual(started, [3, 1])
            runner.forget(["local-8"])
            runner.prepare(wanted)
            self.assertEqual(started, [3, 1, 1])
            with self.assertRaises(runs.TimeIsUp):
                runs.Runner(0, Path(folder)).prepare([specs.Spec("train", "cnn", "ddp", 2, 4, 100)])


if __name__ == "__main__":
    unittest.main()
