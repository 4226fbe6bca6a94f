// SPDX-License-Identifier: MIT
// Views of the caller's tensors, in the forms that an engine takes them.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pliant/engine/tensor_access.h"

namespace pliant::engine {

// The description of one tensor. All ranks list the same ones in the same order.
struct Parameter {
  std::string name;
  std::size_t size = 0;    // entries
  std::string shape = {};  // anything that must be alike on all ranks: sizes, strides, type
};

// The gradient of one parameter, read and then replaced by the average.
struct Piece {
  int parameter = 0;  // its place in the list that the engine was made with
  std::span<float> gradient;
  // An earlier average that the caller adds to this one before it is used. If the step is void, so
  // is that sum, and `carried` goes back to the residual. Not used under dense plans.
  std::span<const float> carried = {};
};

// Gradients handed over together.
struct Submission {
  std::vector<Piece> pieces;
  std::shared_ptr<const void> owner = {};  // keeps the memory of the pieces until done
  // Null, or waits until the pieces may be read, as after a copy from a device. Called by lanes,
  // and by the caller's thread in the first two steps with a clip_norm.
  std::function<void()> ready = {};
  // The caller averages these gradients itself, which Gradients::caller_may_average() allows.
  // Pieces then have no memory, and `ready` waits for the average.
  bool is_averaged = false;
  // Called once, by a lane: with null when the averages are there, else with the failure. In the
  // first two steps it is called after the step's last submission. Averages may be used once all of
  // a step have arrived: one void exchange makes the whole step void.
  std::function<void(std::exception_ptr)> done = {};
};

// The tensors that kind updates reads and writes: spans, or a TensorAccess for tensors that are not
// float32 in host memory. Buffers are floats that a model keeps beside its parameters, such as
// running statistics.
struct ModelTensors {
  TensorList parameters;
  TensorList buffers = {};
};

// The outcome of one Updates::step().
struct Stepped {
  bool sent = false;
  bool landed = false;
  bool finite = true;  // false: this rank's progress was not finite; its parameters were reset to
                       // its reference
};

}  // namespace pliant::engine
