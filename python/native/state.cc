// SPDX-License-Identifier: MIT
#include "python/native/state.h"

#include <ATen/ATen.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "pliant/engine/engine.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

using Vectors = std::vector<std::vector<float>>;

Vectors vectors_of(const std::vector<at::Tensor>& tensors) {
  Vectors vectors;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor flat = tensor.to(at::kFloat).contiguous();
    vectors.emplace_back(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  }
  return vectors;
}

// A member that Python sees as a list of flat tensors.
template <typename Class>
void def_tensors(py::class_<Class>& bound, const char* name, Vectors Class::*member) {
  bound.def_property(
      name, [member](const Class& self) { return tensors_of(self.*member); },
      [member](Class& self, const std::vector<at::Tensor>& tensors) {
        self.*member = vectors_of(tensors);
      });
}

}  // namespace

std::vector<at::Tensor> tensors_of(const Vectors& vectors) {
  std::vector<at::Tensor> tensors;
  for (const auto& entries : vectors) {
    tensors.push_back(at::empty({static_cast<std::int64_t>(entries.size())}, at::kFloat));
    std::ranges::copy(entries, tensors.back().mutable_data_ptr<float>());
  }
  return tensors;
}

void bind_state(py::module_& module) {
  using engine::State;
  py::class_<State::InFlight> in_flight(module, "InFlight");
  in_flight.def(py::init<>())
      .def_readwrite("number", &State::InFlight::number)
      .def_readwrite("sent", &State::InFlight::sent)
      .def_readwrite("due", &State::InFlight::due)
      .def_readwrite("plan", &State::InFlight::plan)
      .def_readwrite("epoch", &State::InFlight::epoch)
      .def_readwrite("is_void", &State::InFlight::is_void);
  def_tensors(in_flight, "result", &State::InFlight::result);
  def_tensors(in_flight, "own_part", &State::InFlight::own_part);
  def_tensors(in_flight, "returned", &State::InFlight::returned);

  py::class_<State> state(module, "State");
  state.def(py::init<>())
      .def_readwrite("step", &State::step)
      .def_readwrite("exchanges", &State::exchanges)
      .def_readwrite("epoch", &State::epoch)
      .def_readwrite("plan", &State::plan)
      .def_readwrite("policy", &State::policy)
      .def_readwrite("effective_steps", &State::effective_steps)
      .def_readwrite("units", &State::units)
      .def_readwrite("voted", &State::voted)
      .def_readwrite("last_norm", &State::last_norm)
      .def_property(
          "common_share",
          [](const State& self) {
            return std::pair(self.common_share.with_others, self.common_share.if_alike);
          },
          [](State& self, std::pair<double, double> energies) {
            self.common_share = {energies.first, energies.second};
          })
      .def_property(
          "kind", [](const State& self) { return std::string(to_string(self.kind)); },
          [](State& self, const std::string& kind) {
            self.kind = kind == "updates" ? plan::Kind::kUpdates : plan::Kind::kGradients;
          })
      .def_readwrite("updates", &State::updates)
      .def_readwrite("own_steps", &State::own_steps)
      .def_readwrite("next_exchange", &State::next_exchange)
      .def_readwrite("in_flight", &State::in_flight);
  def_tensors(state, "residual", &State::residual);
  def_tensors(state, "base", &State::base);
  def_tensors(state, "buffers", &State::buffers);
}

}  // namespace pliant::native
