// SPDX-License-Identifier: MIT
// Data-parallel training over MPI: each process has its own share of the data, and gradients are
// averaged every step.
//
//   mpirun -n 4 mpi_average "gradients union density=5% values=int8"
//   mpirun -n 4 mpi_average "updates every=4 late=1 union density=5%" run.jsonl
//
// The second argument is the path of a run log (docs/formats/run-log.md).
// The model is logistic regression with 2,000 weights on generated data; what matters are the lines
// that mention `engine`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "pliant/comm/mpi/session.h"
#include "pliant/pliant.h"

namespace {

constexpr std::size_t kWeights = 2000;
constexpr std::size_t kSamples = 200;  // of each rank
constexpr int kSteps = 200;
constexpr float kRate = 0.5F;

struct Data {
  std::vector<std::vector<float>> inputs;
  std::vector<float> labels;  // 0 or 1
};

// The labels follow from a few weights that all ranks would find, had they all the data.
Data make_data(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  Data data;
  for (std::size_t s = 0; s < kSamples; ++s) {
    std::vector<float> input(kWeights);
    std::ranges::generate(input, [&] { return normal(random); });
    data.labels.push_back(std::accumulate(input.begin(), input.begin() + 20, 0.0F) > 0 ? 1.0F
                                                                                       : 0.0F);
    data.inputs.push_back(std::move(input));
  }
  return data;
}

// The mean loss over this rank's data, and its gradient.
float loss_and_gradient(const Data& data, const std::vector<float>& weights,
                        std::vector<float>& gradient) {
  std::ranges::fill(gradient, 0.0F);
  float loss = 0;
  for (std::size_t s = 0; s < kSamples; ++s) {
    const auto& input = data.inputs[s];
    const float score = std::inner_product(input.begin(), input.end(), weights.begin(), 0.0F);
    const float guess = 1 / (1 + std::exp(-score));
    loss += std::log1p(std::exp(data.labels[s] == 1 ? -score : score)) / kSamples;
    for (std::size_t w = 0; w < kWeights; ++w)
      gradient[w] += (guess - data.labels[s]) * input[w] / kSamples;
  }
  return loss;
}

void train(const pliant::comm::mpi::Session& session, const std::string& plan,
           const std::string& log) {
  auto world = session.world();
  const int rank = world->rank();
  // Where MPI allows threads, exchanges travel in one of their own while this one goes on.
  std::vector<std::unique_ptr<pliant::comm::Communicator>> lanes;
  if (world->capabilities().threads) lanes.push_back(session.world());
  pliant::engine::Options options{
      .pins = pliant::plan::parse_pins(plan), .updates = true, .deadline = pliant::Seconds{60}};
  options.run_log.path = log;
  pliant::Engine engine({.lanes = std::move(lanes), .control = std::move(world)},
                        {{.name = "weights", .size = kWeights}}, options);

  const Data data = make_data(rank);
  std::vector<float> weights(kWeights, 0.0F);
  std::vector<float> gradient(kWeights);
  const std::array<std::span<float>, 1> parameters = {weights};
  const std::array<std::span<float>, 1> gradients = {gradient};
  // Progress is counted from parameters that are the same on all ranks.
  if (engine.kind() == pliant::plan::Kind::kUpdates) engine.rebase({parameters});

  float loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    loss = loss_and_gradient(data, weights, gradient);
    if (step == 0 && rank == 0) fmt::print("step 0: loss {:.4f}\n", loss);
    // Asked anew each time: left to choose, the engine may change from one kind to the other.
    if (engine.kind() == pliant::plan::Kind::kGradients) engine.average(gradients);
    for (std::size_t w = 0; w < kWeights; ++w) weights[w] -= kRate * gradient[w];
    engine.step({parameters});  // under gradients there is nothing to do
  }
  if (engine.kind() == pliant::plan::Kind::kUpdates) engine.settle({parameters});

  engine.close();
  const auto summary = engine.summary();
  const double checksum = std::accumulate(weights.begin(), weights.end(), 0.0);
  fmt::print("rank {}: loss {:.4f}, weights add up to {:.9g}, {} exchanges, {} sent\n", rank, loss,
             checksum, summary.exchanges, pliant::to_string(summary.sent));
}

}  // namespace

int main(int argc, char** argv) {
  const pliant::comm::mpi::Session session(&argc, &argv);
  try {
    train(session, argc > 1 ? argv[1] : "gradients union density=5% values=int8",
          argc > 2 ? argv[2] : "");
    return 0;
  } catch (const pliant::InputError& error) {
    fmt::print(stderr, "mpi_average: {}\n", error.what());
    return pliant::kExitBadInput;
  } catch (const pliant::IoError& error) {  // the run log cannot be written: all ranks say so
    fmt::print(stderr, "mpi_average: {}\n", error.what());
    return pliant::kExitBadInput;
  } catch (const pliant::comm::CommError& error) {
    fmt::print(stderr, "mpi_average: {}\n", error.what());
    return pliant::kExitPeerLost;
  }
}
