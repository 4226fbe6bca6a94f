// SPDX-License-Identifier: MIT
// pliant._native: what Python sees of the core. Everything that may block lets go of the GIL.
#include <ATen/ATen.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <string>

#include "pliant/common/units.h"
#include "pliant/common/version.h"
#include "pliant/plan/pins.h"
#include "pliant/plan/plan.h"
#include "python/native/engine.h"
#include "python/native/errors.h"
#include "python/native/layout.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

// torch's own classes keep their objects by holders of torch's; ours shares the count that is inside the object.
template <typename T>
c10::intrusive_ptr<T> shared(const py::handle& object) {
  return c10::intrusive_ptr<T>::unsafe_reclaim_from_nonowning(py::cast<T*>(object));
}

// A callable that any thread may call and drop.
engine::Log log_to(py::object sink) {
  const std::shared_ptr<py::object> kept(new py::object(std::move(sink)), [](py::object* object) {
    if (interpreter_is_ending()) return;
    const py::gil_scoped_acquire gil;
    delete object;
  });
  return [kept](engine::Severity severity, std::string_view text) {
    if (interpreter_is_ending()) return;
    const py::gil_scoped_acquire gil;
    (*kept)(static_cast<int>(severity), std::string(text));
  };
}

std::unique_ptr<TensorEngine> make_engine(const std::vector<py::object>& lanes, const py::object& control, const py::object& store,
                                          const std::vector<std::string>& names, std::vector<at::Tensor> parameters,
                                          const std::string& plan, std::optional<double> deadline, int check_every, std::int64_t warm_up,
                                          bool ramp, double clip_norm, bool adam, bool shared_scheme,
                                          std::vector<std::pair<std::string, std::string>> facts, py::object log) {
  Groups groups{.control = shared<::c10d::Backend>(control), .store = shared<::c10d::Store>(store)};
  for (const py::object& lane : lanes) groups.lanes.push_back(shared<::c10d::Backend>(lane));
  engine::Options options{.pins = plan::parse_pins(plan),
                          .shared = shared_scheme,
                          .adam = adam,
                          .check_every = check_every,
                          .warm_up = warm_up == 0 ? engine::WarmUp::kNone
                                     : ramp       ? engine::WarmUp::kRamp
                                                  : engine::WarmUp::kDense,
                          .warm_up_steps = warm_up,
                          .clip_norm = clip_norm,
                          .facts = std::move(facts),
                          .log = log_to(std::move(log))};
  if (deadline) options.deadline = Seconds{*deadline};
  const py::gil_scoped_release no_gil;
  return std::make_unique<TensorEngine>(std::move(groups), names, std::move(parameters), std::move(options));
}

std::vector<at::Tensor> residual_of(const engine::State& state) {
  std::vector<at::Tensor> tensors;
  for (const auto& entries : state.residual) {
    tensors.push_back(at::empty({static_cast<std::int64_t>(entries.size())}, at::kFloat));
    std::ranges::copy(entries, tensors.back().mutable_data_ptr<float>());
  }
  return tensors;
}

void set_residual(engine::State& state, const std::vector<at::Tensor>& tensors) {
  state.residual.clear();
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor flat = tensor.to(at::kFloat).contiguous();
    state.residual.emplace_back(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  }
}

void bind_values(py::module_& module) {
  py::class_<engine::Memory>(module, "Memory")
      .def_readonly("residual", &engine::Memory::residual)
      .def_readonly("base", &engine::Memory::base)
      .def_readonly("in_flight", &engine::Memory::in_flight)
      .def_readonly("scratch", &engine::Memory::scratch);
  py::class_<engine::Summary>(module, "Summary")
      .def_readonly("plan", &engine::Summary::plan)
      .def_readonly("epoch", &engine::Summary::epoch)
      .def_readonly("steps", &engine::Summary::steps)
      .def_readonly("exchanges", &engine::Summary::exchanges)
      .def_readonly("voids", &engine::Summary::voids)
      .def_property_readonly("sent", [](const engine::Summary& summary) { return summary.sent.value; })
      .def_property_readonly("control_sent", [](const engine::Summary& summary) { return summary.control_sent.value; })
      .def_property_readonly("on_the_wire", [](const engine::Summary& summary) { return summary.on_the_wire.value; })
      .def_property_readonly("coding", [](const engine::Summary& summary) { return summary.coding.value; })
      .def_readonly("updated_fraction", &engine::Summary::updated_fraction)
      .def_readonly("gain", &engine::Summary::gain)
      .def_readonly("memory", &engine::Summary::memory)
      .def_readonly("decisions", &engine::Summary::decisions);
  py::class_<engine::State>(module, "State")
      .def(py::init<>())
      .def_readwrite("step", &engine::State::step)
      .def_readwrite("exchanges", &engine::State::exchanges)
      .def_readwrite("epoch", &engine::State::epoch)
      .def_readwrite("plan", &engine::State::plan)
      .def_readwrite("policy", &engine::State::policy)
      .def_readwrite("units", &engine::State::units)
      .def_readwrite("voted", &engine::State::voted)
      .def_readwrite("last_norm", &engine::State::last_norm)
      .def_property("residual", &residual_of, &set_residual);
}

void bind_engine(py::module_& module) {
  py::class_<TensorEngine>(module, "Engine")
      .def(py::init(&make_engine), py::kw_only(), py::arg("lanes"), py::arg("control"), py::arg("store"), py::arg("names"),
           py::arg("parameters"), py::arg("plan"), py::arg("deadline"), py::arg("check_every"), py::arg("warm_up"), py::arg("ramp"),
           py::arg("clip_norm"), py::arg("adam"), py::arg("shared"), py::arg("facts"), py::arg("log"))
      .def("submit", &TensorEngine::submit, py::arg("bucket"), py::arg("parameters"))
      .def("begin_backward", &TensorEngine::begin_backward, NoGil())
      .def("rescaled", &TensorEngine::rescaled, NoGil())
      .def(
          "end_step", [](TensorEngine& self) { self.engine().end_step(); }, NoGil())
      .def(
          "set_plan", [](TensorEngine& self, const std::string& pins) { self.engine().set_plan(plan::parse_pins(pins)); }, NoGil(),
          py::arg("plan"))
      .def_property_readonly("plan", py::cpp_function([](TensorEngine& self) { return to_string(self.engine().plan()); }, NoGil()))
      .def(
          "summary", [](TensorEngine& self) { return self.engine().summary(); }, NoGil())
      .def(
          "state", [](TensorEngine& self) { return self.engine().state(); }, NoGil())
      .def(
          "restore", [](TensorEngine& self, const engine::State& state) { self.engine().restore(state); }, NoGil(), py::arg("state"))
      .def(
          "rescale", [](TensorEngine& self, double factor) { self.engine().rescale(factor); }, NoGil(), py::arg("factor"))
      .def(
          "close", [](TensorEngine& self) { self.engine().close(); }, NoGil());
}

}  // namespace
}  // namespace pliant::native

PYBIND11_MODULE(_native, module) {
  module.doc() = "The C++ core of pliant, bound to the torch it was built with.";
  module.attr("version") = std::string(pliant::version());
  module.attr("torch_version") = PLIANT_TORCH_VERSION;
  pliant::native::register_errors();
  module.def(
      "read_plan", [](const std::string& text) { return to_string(pliant::plan::parse_pins(text)); }, pybind11::arg("text"));
  module.def(
      "read_duration", [](const std::string& text, const std::string& what) { return pliant::parse_duration(text, what).value; },
      pybind11::arg("text"), pybind11::arg("what"));
  module.def(
      "size_text", [](std::int64_t bytes) { return to_string(pliant::Bytes{bytes}); }, pybind11::arg("bytes"));
  module.def(
      "duration_text", [](double seconds) { return to_string(pliant::Seconds{seconds}); }, pybind11::arg("seconds"));
  module.def("layout", &pliant::native::layout, pybind11::arg("parameter"));
  pliant::native::bind_values(module);
  pliant::native::bind_engine(module);
}
