// SPDX-License-Identifier: MIT
// Selection against copies, against the least that memory has to move, against std::nth_element and
// against MSTopk, as a small C interface: bench/kernels.py calls it, and torch, in turns within
// one process. Every call works on memory given by the caller, which has been touched before.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "bench/published/mstopk.h"
#include "pliant/common/buffer.h"
#include "pliant/common/processor_time.h"
#include "pliant/compress/measure.h"
#include "pliant/compress/selector.h"
#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/sparse.h"
#include "tests/support/distributions.h"

namespace pliant::compress {
namespace {

// Processor time of this thread: the machine may be busy with other work, which is nobody's cost
// here.
double seconds() { return processor_time().value; }

template <typename Work>
double time_of(Work work) {
  const double start = seconds();
  work();
  return seconds() - start;
}

// The selector of one bucket, with its last selection.
struct Bench {
  Bench(std::size_t entries, std::size_t keep) : selector({entries}) { selector.aim({keep}); }

  Selector selector;
  Selection selection;
  std::vector<float>
      magnitudes;  // for nth_element, kept from step to step like the selector's memory
  int passes = 0;
};

}  // namespace

extern "C" {

Bench* pliant_bench_new(std::size_t entries, std::size_t keep) {
  return std::make_unique<Bench>(entries, keep).release();
}

// Memory as the library allocates what is its own: residuals, bases.
Buffer<float>* pliant_bench_new_buffer(std::size_t entries) {
  return std::make_unique<Buffer<float>>(entries).release();
}
float* pliant_bench_buffer_data(const Buffer<float>* buffer) { return buffer->data(); }

void pliant_bench_delete(Bench* bench) { const std::unique_ptr<Bench> owned(bench); }
void pliant_bench_delete_buffer(Buffer<float>* buffer) {
  const std::unique_ptr<Buffer<float>> owned(buffer);
}

// Seconds of: contribution in, selection out, threshold for the next step.
double pliant_bench_gradient_step(Bench* bench, const float* gradient, float* residual,
                                  std::size_t n) {
  return time_of([&] {
    bench->passes =
        bench->selector.select(0, Gradient{{gradient, n}}, {residual, n}, bench->selection).passes;
    bench->selector.end_round();
  });
}

double pliant_bench_progress_step(Bench* bench, float* parameters, const float* reference,
                                  float* residual, std::size_t n) {
  return time_of([&] {
    bench->passes =
        bench->selector
            .select(0, Progress{{parameters, n}, {reference, n}}, {residual, n}, bench->selection)
            .passes;
    bench->selector.end_round();
  });
}

std::size_t pliant_bench_kept(const Bench* bench) { return bench->selection.size(); }
int pliant_bench_passes(const Bench* bench) { return bench->passes; }

// Undoes the last selection, so that every step finds a residual of the same kind.
void pliant_bench_put_back(const Bench* bench, float* residual, std::size_t n) {
  kernels::scatter({residual, n}, bench->selection.indices(), bench->selection.values());
}

double pliant_bench_copy(float* to, const float* from, std::size_t n) {
  return time_of([&] { std::memcpy(to, from, n * sizeof(float)); });
}

// A copy with ordinary stores: a line is read before it is written, which a large memcpy avoids
// where it can. Turning the sign keeps compilers from making a memcpy of it.
double pliant_bench_plain_copy(float* to, const float* from, std::size_t n) {
  return time_of([&] {
    for (std::size_t i = 0; i < n; ++i) to[i] = -from[i];
  });
}

// What a step on gradients must move, and nothing else: 12 bytes an entry.
double pliant_bench_gradient_floor(const float* gradient, float* residual, std::size_t n) {
  return time_of([&] {
    for (std::size_t i = 0; i < n; ++i) residual[i] += gradient[i];
  });
}

// The same for updates: 20 bytes an entry.
double pliant_bench_progress_floor(float* parameters, const float* reference, float* residual,
                                   std::size_t n) {
  return time_of([&] {
    for (std::size_t i = 0; i < n; ++i) {
      residual[i] += parameters[i] - reference[i];
      parameters[i] = reference[i];
    }
  });
}

// The same step as a C++ programmer would write it: add, copy of |x|, nth_element, gather, clear.
double pliant_bench_nth_element_step(Bench* bench, const float* gradient, float* residual,
                                     std::size_t n, std::size_t keep) {
  bench->magnitudes.resize(n);
  const kernels::Room room = bench->selection.room(n);
  return time_of([&] {
    for (std::size_t i = 0; i < n; ++i) residual[i] += gradient[i];
    for (std::size_t i = 0; i < n; ++i) bench->magnitudes[i] = kernels::magnitude(residual[i]);
    const auto place = bench->magnitudes.begin() + static_cast<std::ptrdiff_t>(keep - 1);
    std::nth_element(bench->magnitudes.begin(), place, bench->magnitudes.end(), std::greater<>());
    const float threshold = *place;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n && kept < keep; ++i) {
      if (kernels::magnitude(residual[i]) < threshold) continue;
      room.indices[kept] = static_cast<std::uint32_t>(i);
      room.values[kept++] = residual[i];
      residual[i] = 0;
    }
    bench->selection.resize(kept);
  });
}

// The same step with MSTopk's selection.
double pliant_bench_mstopk_step(Bench* bench, const float* gradient, float* residual, std::size_t n,
                                std::size_t keep) {
  return time_of([&] {
    for (std::size_t i = 0; i < n; ++i) residual[i] += gradient[i];
    pliant::bench::mstopk({residual, n}, keep, bench->selection);
  });
}

void pliant_bench_draw(int distribution, std::uint64_t seed, float* values, std::size_t n) {
  std::mt19937_64 random(seed);
  draw_all(static_cast<Distribution>(distribution), 1, random, {values, n});
}

// Writes the cost table of this machine. Returns 0, or 1 if the file cannot be written.
int pliant_bench_write_costs(const char* path, std::size_t elements, int repetitions) {
  std::ofstream file(path);
  file << plan::to_text(measure_costs({.elements = elements, .repetitions = repetitions}));
  return file.good() ? 0 : 1;
}

double pliant_bench_start_up_costs() {
  return time_of([] { (void)measure_costs(); });
}

}  // extern "C"

}  // namespace pliant::compress
