# SPDX-License-Identifier: MIT
"""One rank of the doctor's trial: loads torch, then the binding, then trains a few steps under a
sparse plan with the other one.

Usage: python -m pliant.doctor.trial RANK SIZE STORE FACTS [DEVICE]. With a device it tries that one
instead (device_trial.py)."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

from pliant.doctor.facts import Facts, text_of

_PLAN = "gradients union density=10%"
_STEPS = 3
_PATIENCE = datetime.timedelta(seconds=60)


def look_at_torch(facts: Facts) -> bool:
    try:
        import torch
    except Exception as error:
        facts.add(torch_error=text_of(error))
        return False
    facts.add(
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        cuda=torch.version.cuda if torch.cuda.is_available() else None,
    )
    import torch.distributed as dist

    if not dist.is_available():
        return False
    facts.add(
        backends={
            "gloo": dist.is_gloo_available(),
            "mpi": dist.is_mpi_available(),
            "nccl": dist.is_nccl_available(),
        }
    )
    return bool(dist.is_gloo_available())


def look_at_binding(facts: Facts) -> bool:
    try:
        from pliant import version

        version.check_here()
        from pliant import _native
    except Exception as error:
        facts.add(binding_error=text_of(error))
        return False
    built = version.of_build()
    facts.add(
        binding=_native.version,
        simd=_native.simd_targets(),
        built_for=built.torch_version,
        compiler=built.compiler,
        build_type=built.build_type,
    )
    return True


def train(rank: int, size: int, store: str) -> int:
    import torch
    import torch.distributed as dist

    import pliant

    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=_PATIENCE
    )
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averager = pliant.attach(model, optimizer, plan=_PLAN)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
    averager.close()
    dist.destroy_process_group()
    return _STEPS


def main(rank: int, size: int, store: str, facts: Facts, device: str | None) -> int:
    if not look_at_torch(facts) or not look_at_binding(facts):
        return 0
    try:
        if device is None:
            facts.add(attached=train(rank, size, store), plan=_PLAN)
        else:
            from pliant.doctor import device_trial

            device_trial.try_device(device, rank, size, store, facts)
    except Exception as error:
        facts.add(attach_error=text_of(error))
        return 1
    return 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    wanted = sys.argv[5] if len(sys.argv) > 5 else None
    sys.exit(main(numbers[0], numbers[1], sys.argv[3], Facts(Path(sys.argv[4])), wanted))
