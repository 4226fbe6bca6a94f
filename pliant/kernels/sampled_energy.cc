// SPDX-License-Identifier: MIT
#include "pliant/kernels/sampled_energy.h"

#include <algorithm>

#include "pliant/kernels/dense.h"

namespace pliant::kernels {
namespace {

constexpr std::size_t kSampled = 16'384;

template <typename Of>
double over_blocks(std::size_t size, std::size_t stride, Of of) {
  double sum = 0;
  for (std::size_t begin = 0; begin < size; begin += kSampleBlock * stride)
    sum += of(begin, std::min(kSampleBlock, size - begin));
  return sum;
}

}  // namespace

std::size_t sample_stride(std::size_t model_entries) {
  return std::max<std::size_t>(1, model_entries / kSampled);
}

double sampled_energy(std::span<const float> values, std::size_t stride) {
  return over_blocks(values.size(), stride, [&](std::size_t begin, std::size_t count) {
    return energy(values.subspan(begin, count));
  });
}

double sampled_energy(std::span<const float> values, std::span<const float> minus,
                      std::size_t stride) {
  return over_blocks(values.size(), stride, [&](std::size_t begin, std::size_t count) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + count; ++i) {
      const double difference = static_cast<double>(values[i]) - minus[i];
      sum += difference * difference;
    }
    return sum;
  });
}

}  // namespace pliant::kernels
