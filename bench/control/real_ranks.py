# SPDX-License-Identifier: MIT
"""Part of bench/control.py that real PyTorch ranks run: the error of predicted exchange times, and
whether plan="auto" slows down training that needs no help. Started with a role it is one rank."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent))

import figures  # noqa: E402
import torch  # noqa: E402
import training  # noqa: E402
from pace import Pace  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

HOSTS = 4
LINKS = ["10mbit,50ms", "30mbit,20ms", "100mbit,10ms", "300mbit,3ms", "1gbit,1ms"]
STEPS = 240  # of which warm-up takes 100
LEARNT = 60  # from here on errors count: the first guess of the link is nobody's prediction

WIDTH = 512
LAYERS = 4  # square ones: 1.05 million parameters
SMALL, LARGE = (
    32,
    2048,
)  # entries of a batch: a step of milliseconds, and one beside which an exchange is little
COMPUTE = 0.05  # seconds: four ranks that computed all the time on two cores would time each other, not the network
REPETITIONS = 15
TURN = 8  # steps, a multiple of every `every`
SETTLED = 160  # steps before harm is timed: warm-up and some


class Runner:
    """A model under plain DDP (plan None), or with an averager. With `compute` a step's own work
    takes that many seconds (pace.py)."""

    def __init__(
        self, plan: str | None, batch: int, compute: float = 0.0, **options: object
    ) -> None:
        import pliant

        model = training.make_model(WIDTH, LAYERS)
        self.pace = Pace(model, compute) if compute else None
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.averager = (
            None
            if plan is None
            else pliant.attach(self.model, self.optimizer, plan=plan, **options)
        )
        self.inputs = torch.randn(batch, WIDTH)

    def steps(self, count: int = TURN) -> None:
        for _ in range(count):
            training.one_step(self.model, self.optimizer, self.inputs, self.pace)


def predicted() -> None:
    """Trains under plan="auto" and leaves a run log."""
    training.start()
    runner = Runner("auto", SMALL, COMPUTE, log=sys.argv[2])
    runner.steps(STEPS)
    runner.averager.close()
    training.say(done=True)


def harm() -> None:
    """Step time under plan="auto" over plain DDP's, in turns."""
    training.start()
    plain, ours = Runner(None, LARGE), Runner("auto", LARGE)
    plain.steps(TURN)
    ours.steps(SETTLED)
    ratios = []
    for _ in range(REPETITIONS):
        there, here = training.timed(plain.steps), training.timed(ours.steps)
        ratios.append(here / there)
    training.say(ratios=ratios, plan=str(ours.averager.plan))
    ours.averager.close()


def errors_of(log: Path) -> list[dict[str, object]]:
    """One row for each exchange after the first steps."""
    rows = []
    for text in log.read_text().splitlines():
        line = json.loads(text)
        if (
            line["type"] != "step"
            or line["step"] < LEARNT
            or line["void"]
            or not line["predicted"]
            or not line["seen"]
        ):
            continue
        rows.append(
            {
                "step": line["step"],
                "plan": line["plan"],
                "predicted": line["predicted"],
                "seen": line["seen"],
                "error": abs(line["predicted"] / line["seen"] - 1),
            }
        )
    return rows


def prediction_errors() -> dict[str, list[dict[str, object]]]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for i, link in enumerate(LINKS):
            log = Path(folder) / f"{i}.jsonl"
            training.in_the_lab(HERE, ["predicted", str(log)], HOSTS, link, 900)
            found[link] = errors_of(log)
    return found


def measure() -> tuple[list[figures.Figure], dict[str, object]]:
    """All figures of real ranks, and what they were made of."""
    by_link = prediction_errors()
    errors = sorted(row["error"] for rows in by_link.values() for row in rows)
    loopback = training.on_loopback(HERE, ["harm"], 2, 900)
    lab = training.in_the_lab(HERE, ["harm"], 2, "1gbit,1ms", 900)
    medians = [statistics.median(run["ratios"]) for run in (loopback, lab)]
    found = [
        figures.exact(
            "prediction_error/median",
            statistics.median(errors),
            f"of exchange time, {len(errors)} exchanges of {HOSTS} PyTorch ranks in the lab",
        ),
        figures.exact(
            "prediction_error/p90",
            errors[min(len(errors) - 1, int(0.9 * len(errors)))],
            "of exchange time",
        ),
        figures.exact(
            "harm", max(medians), "auto's step over plain DDP's, the worse of the two below"
        ),
        figures.spread("harm/loopback", loopback["ratios"], f"x; {loopback['plan']}"),
        figures.spread("harm/lab", lab["ratios"], f"x, 1 Gbit/s; {lab['plan']}"),
    ]
    return found, {"exchanges": by_link, "harm": {"loopback": loopback, "lab": lab}}


def table(by_link: dict[str, list[dict[str, object]]]) -> str:
    """Errors by link; and of the plan that ran most: the median of predicted / seen, and how far
    the times seen spread by themselves."""
    rows = []
    for link, exchanges in by_link.items():
        errors = sorted(row["error"] for row in exchanges)
        plan = statistics.mode(row["plan"] for row in exchanges)
        under_it = [row for row in exchanges if row["plan"] == plan]
        seen = [row["seen"] for row in under_it]
        bias = statistics.median(row["predicted"] / row["seen"] for row in under_it)
        rows.append(
            [
                link,
                str(len(errors)),
                statistics.median(errors),
                errors[int(0.9 * len(errors))],
                plan,
                bias,
                statistics.pstdev(seen) / statistics.fmean(seen),
            ]
        )
    return figures.table(
        [
            "link",
            "exchanges",
            "median error",
            "p90",
            "the plan that ran most",
            "predicted/seen",
            "spread of seen",
        ],
        rows,
    )


if __name__ == "__main__":
    {"predicted": predicted, "harm": harm}[sys.argv[1]]()
