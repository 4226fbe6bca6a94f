// SPDX-License-Identifier: MIT
#include "pliant/kernels/targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace pliant::kernels {

std::vector<Target> targets() {
  std::vector<Target> found;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t id = left & -left;  // lower bits are better targets
    found.push_back({id, hwy::TargetName(id)});
  }
  return found;
}

PinnedTarget::PinnedTarget(const Target& target) {
  hwy::SetSupportedTargetsForTest(target.id);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

PinnedTarget::~PinnedTarget() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace pliant::kernels
