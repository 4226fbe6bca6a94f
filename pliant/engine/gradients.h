// SPDX-License-Identifier: MIT
// The gradients side of an engine: hand over gradients as backward produces them, get averages.
//
//   for each bucket: engine.gradients().submit({...});   // replaced by the average, done() called
//   or:              engine.average(gradients);           // all at once; blocks
//
// A step is over when every parameter has been submitted once. Buckets may be cut and ordered in
// any way, and differently from step to step: what is exchanged together are the engine's own units
// (units.h), which no restart changes.
#pragma once

#include "pliant/common/units.h"
#include "pliant/engine/tensors.h"

namespace pliant::engine {

struct Parts;

class Gradients {
 public:
  explicit Gradients(Parts& parts) : parts_(parts) {}

  // Fixes the plan of the coming step, unless one has begun. submit() does so by itself.
  void begin_step();
  void submit(Submission submission);
  // Between begin_step() and the step's last submission: whether the plan of this step is what the
  // caller's own dense all-reduce does, so that it may average the step's gradients itself and
  // submit them as averaged: all of them, and on all ranks. All ranks are told the same.
  [[nodiscard]] bool caller_may_average() const;
  // Averages all parameters, in their order; blocks. Throws the exchange's error.
  void average(Tensors gradients);
  // Waits until all that was submitted is done.
  void end_step();

  // Multiplies the residual: the unit of the gradients has changed (a loss scale).
  void rescale(double factor);
  // Another Options::clip_norm from the next step on, in units of the gradients.
  void set_clip_norm(double norm);
  // Between two steps the training thread has waited this long for communication that is not the
  // engine's (DDP's broadcast of buffers). It is not compute, which an exchange could overlap with.
  void note_other_wait(Seconds waited);

 private:
  void open_step();

  Parts& parts_;
};

}  // namespace pliant::engine
