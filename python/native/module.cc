// SPDX-License-Identifier: MIT
// Python module pliant._native, the binding of the C++ core. Every call that may block releases the
// GIL.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <span>
#include <string>

#include "pliant/common/hash.h"
#include "pliant/common/units.h"
#include "pliant/common/version.h"
#include "pliant/kernels/targets.h"
#include "pliant/plan/link.h"
#include "pliant/plan/pins.h"
#include "pliant/plan/plan.h"
#include "python/native/completion.h"
#include "python/native/engine.h"
#include "python/native/errors.h"
#include "python/native/layout.h"
#include "python/native/options.h"
#include "python/native/plan.h"
#include "python/native/side_channel.h"
#include "python/native/state.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

// torch's own classes keep their objects by holders of torch's; ours shares the count that is
// inside the object.
template <typename T>
c10::intrusive_ptr<T> shared(const py::handle& object) {
  return c10::intrusive_ptr<T>::unsafe_reclaim_from_nonowning(py::cast<T*>(object));
}

using Named = std::vector<std::pair<std::string, at::Tensor>>;

std::pair<std::vector<std::string>, std::vector<at::Tensor>> split(const Named& named) {
  std::pair<std::vector<std::string>, std::vector<at::Tensor>> parts;
  for (const auto& [name, tensor] : named) {
    parts.first.push_back(name);
    parts.second.push_back(tensor);
  }
  return parts;
}

std::unique_ptr<TensorEngine> make_engine(const Groups& groups, const Named& parameters,
                                          const Named& buffers, const engine::Options& options) {
  auto [names, tensors] = split(parameters);
  const auto [buffer_names, buffer_tensors] = split(buffers);
  const py::gil_scoped_release no_gil;
  return std::make_unique<TensorEngine>(groups, names, std::move(tensors), options, buffer_names,
                                        buffer_tensors);
}

constexpr std::int64_t kSampleEntries = 16;  // of each tensor

// Of the bytes, tensor after tensor; the same for tensors that are equal bit for bit.
std::int64_t hash_of(const std::vector<at::Tensor>& tensors) {
  std::uint64_t all = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor here = tensor.device().is_cpu() ? tensor : tensor.to(at::kCPU);
    const at::Tensor dense = here.is_non_overlapping_and_dense() ? here : here.contiguous();
    all =
        pliant::hash({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}, all);
  }
  return static_cast<std::int64_t>(all);
}

// A few entries of each tensor, evenly spread: whether they changed says whether the tensors did.
at::Tensor sample_of_host(const std::vector<at::Tensor>& tensors) {
  std::vector<float> entries;
  for (const at::Tensor& tensor : tensors) {
    const float* data = tensor.const_data_ptr<float>();
    const std::int64_t stride = std::max<std::int64_t>(1, tensor.numel() / kSampleEntries);
    for (std::int64_t i = 0; i < tensor.numel(); i += stride) entries.push_back(data[i]);
  }
  return at::tensor(entries, at::TensorOptions(at::kFloat).device(at::kCPU));
}

// The same for tensors on a device or narrower than float32: work of the current stream, whose
// result is on the device of the first tensor.
at::Tensor sample_of_any(const std::vector<at::Tensor>& tensors) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> entries;
  for (const at::Tensor& tensor : tensors) {
    const std::int64_t stride = std::max<std::int64_t>(1, tensor.numel() / kSampleEntries);
    const std::int64_t count = (tensor.numel() + stride - 1) / stride;
    entries.push_back(tensor.detach()
                          .as_strided({count}, {stride})
                          .to(tensors.front().device(), at::kFloat, /*non_blocking=*/true));
  }
  return at::cat(entries);
}

// The tensors are dense.
at::Tensor sample_of(const std::vector<at::Tensor>& tensors) {
  const bool are_host_floats = std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat && tensor.device().is_cpu();
  });
  return are_host_floats ? sample_of_host(tensors) : sample_of_any(tensors);
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
      .def_readonly("rounds", &engine::Summary::rounds)
      .def_readonly("exchanges", &engine::Summary::exchanges)
      .def_readonly("voids", &engine::Summary::voids)
      .def_property_readonly("sent",
                             [](const engine::Summary& summary) { return summary.sent.value; })
      .def_property_readonly(
          "control_sent", [](const engine::Summary& summary) { return summary.control_sent.value; })
      .def_property_readonly(
          "control_time", [](const engine::Summary& summary) { return summary.control_time.value; })
      .def_property_readonly(
          "on_the_wire", [](const engine::Summary& summary) { return summary.on_the_wire.value; })
      .def_readonly("overlap", &engine::Summary::overlap)
      .def_property_readonly("coding",
                             [](const engine::Summary& summary) { return summary.coding.value; })
      .def_readonly("updated_fraction", &engine::Summary::updated_fraction)
      .def_readonly("gain", &engine::Summary::gain)
      .def_readonly("lengthening", &engine::Summary::lengthening)
      .def_readonly("worth", &engine::Summary::worth)
      .def_readonly("effective_steps", &engine::Summary::effective_steps)
      .def_readonly("memory", &engine::Summary::memory)
      .def_readonly("network", &engine::Summary::network)
      .def_readonly("decisions", &engine::Summary::decisions)
      .def_readonly("reasons", &engine::Summary::reasons);
  py::class_<engine::Stepped>(module, "Stepped")
      .def_readonly("sent", &engine::Stepped::sent)
      .def_readonly("landed", &engine::Stepped::landed)
      .def_readonly("finite", &engine::Stepped::finite);
}

void bind_groups(py::module_& module) {
  py::class_<Groups>(module, "Groups")
      .def(py::init([](const std::vector<py::object>& lanes, const py::object& control,
                       const py::object& store, const py::object& control_store,
                       std::uint16_t part) {
             Groups groups{.control = shared<::c10d::Backend>(control),
                           .store = shared<::c10d::Store>(store),
                           .control_store = shared<::c10d::Store>(control_store),
                           .part = part};
             for (const py::object& lane : lanes)
               groups.lanes.push_back(shared<::c10d::Backend>(lane));
             return groups;
           }),
           py::arg("lanes"), py::arg("control"), py::arg("store"), py::arg("control_store"),
           py::arg("part"));
}

void bind_engine(py::module_& module) {
  py::class_<TensorEngine>(module, "Engine")
      .def(py::init(&make_engine), py::arg("groups"), py::arg("parameters"), py::arg("buffers"),
           py::arg("options"))
      .def("submit", &TensorEngine::submit, py::arg("bucket"), py::arg("parameters"))
      .def("submit_averaged", &TensorEngine::submit_averaged, NoGil(), py::arg("parameters"),
           py::arg("work"), py::arg("device"))
      .def_property_readonly(
          "caller_may_average",
          py::cpp_function(
              [](TensorEngine& self) { return self.engine().gradients().caller_may_average(); },
              NoGil()))
      .def("watch_gradients", &TensorEngine::watch_gradients, NoGil())
      .def("rescaled", &TensorEngine::rescaled, NoGil())
      .def(
          "begin_step", [](TensorEngine& self) { self.engine().gradients().begin_step(); }, NoGil())
      .def(
          "end_step", [](TensorEngine& self) { self.engine().gradients().end_step(); }, NoGil())
      .def_property_readonly(
          "is_updates",
          py::cpp_function(
              [](TensorEngine& self) { return self.engine().kind() == plan::Kind::kUpdates; },
              NoGil()))
      .def_property_readonly(
          "lengthening",
          py::cpp_function([](TensorEngine& self) { return self.engine().updates().step_scale(); },
                           NoGil()))
      .def_property_readonly(
          "worth",
          py::cpp_function([](TensorEngine& self) { return self.engine().worth(); }, NoGil()))
      .def_property_readonly(
          "effective_steps",
          py::cpp_function([](TensorEngine& self) { return self.engine().effective_steps(); },
                           NoGil()))
      .def("step", &TensorEngine::step, NoGil(), py::arg("parameters"), py::arg("buffers"))
      .def(
          "settle",
          [](TensorEngine& self, const std::vector<at::Tensor>& parameters,
             const std::vector<at::Tensor>& buffers, bool unbounded) {
            using Patience = engine::Updates::Patience;
            self.settle(parameters, buffers,
                        unbounded ? Patience::kUnbounded : Patience::kDeadline);
          },
          NoGil(), py::arg("parameters"), py::arg("buffers"), py::arg("unbounded") = false)
      .def("meet", &TensorEngine::meet, NoGil(), py::arg("parameters"), py::arg("buffers"))
      .def("rebase", &TensorEngine::rebase, NoGil(), py::arg("parameters"), py::arg("buffers"))
      .def("clear_at_sent", &TensorEngine::clear_at_sent, NoGil(), py::arg("tensors"))
      .def(
          "base", [](TensorEngine& self) { return tensors_of(self.engine().updates().base()); },
          NoGil())
      .def(
          "agreed_buffers",
          [](TensorEngine& self) { return tensors_of(self.engine().updates().buffers()); }, NoGil())
      .def(
          "note_rates",
          [](TensorEngine& self, std::uint32_t rates) {
            self.engine().updates().set_rates_hash(rates);
          },
          py::arg("rates"))
      .def(
          "set_plan",
          [](TensorEngine& self, const std::string& pins) {
            self.engine().set_plan(plan::parse_pins(pins));
          },
          NoGil(), py::arg("plan"))
      .def(
          "tell_network",
          [](TensorEngine& self, const std::optional<std::string>& link) {
            self.engine().set_network(link ? std::optional(plan::parse_link(*link, "the network"))
                                           : std::nullopt);
          },
          NoGil(), py::arg("link"))
      .def_property_readonly(
          "plan",
          py::cpp_function([](TensorEngine& self) { return self.engine().plan(); }, NoGil()))
      .def(
          "summary", [](TensorEngine& self) { return self.engine().summary(); }, NoGil())
      .def(
          "state", [](TensorEngine& self) { return self.engine().state(); }, NoGil())
      .def(
          "restore",
          [](TensorEngine& self, const engine::State& state) { self.engine().restore(state); },
          NoGil(), py::arg("state"))
      .def(
          "rescale",
          [](TensorEngine& self, double factor) { self.engine().gradients().rescale(factor); },
          NoGil(), py::arg("factor"))
      .def(
          "set_clip_norm",
          [](TensorEngine& self, double norm) { self.engine().gradients().set_clip_norm(norm); },
          NoGil(), py::arg("norm"))
      .def(
          "note_other_wait",
          [](TensorEngine& self, double seconds) {
            self.engine().gradients().note_other_wait(Seconds{seconds});
          },
          py::arg("seconds"))
      .def(
          "note",
          [](TensorEngine& self, const std::vector<std::pair<std::string, double>>& values) {
            self.engine().log().note(values);
          },
          NoGil(), py::arg("values"))
      .def(
          "phase",
          [](TensorEngine& self, const std::string& name) { self.engine().log().phase(name); },
          NoGil(), py::arg("name"))
      .def(
          "message",
          [](TensorEngine& self, const std::string& text) {
            self.engine().log().message(Severity::kWarning, text);
          },
          NoGil(), py::arg("text"))
      .def(
          "count_sent",
          [](TensorEngine& self, std::int64_t bytes) { self.engine().log().count_sent({bytes}); },
          NoGil(), py::arg("bytes"))
      .def(
          "latest", [](TensorEngine& self) { return self.engine().log().latest(); }, NoGil())
      .def(
          "close",
          [](TensorEngine& self, bool interrupted, std::optional<std::string> error) {
            self.close({.is_interrupted = interrupted, .error = std::move(error)});
          },
          NoGil(), py::arg("interrupted") = false, py::arg("error") = py::none());
}

// The SIMD instruction sets that the kernels can use on this CPU, the one in use first.
std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const auto& target : kernels::targets()) names.push_back(target.name);
  return names;
}

void bind_side_channel(py::module_& module) {
  py::class_<SideChannel>(module, "SideChannel")
      .def(py::init([](const py::object& backend, const py::object& store, double deadline) {
             return std::make_unique<SideChannel>(shared<::c10d::Backend>(backend),
                                                  shared<::c10d::Store>(store), Seconds{deadline});
           }),
           py::arg("backend"), py::arg("store"), py::arg("deadline"))
      .def_property_readonly("rank", &SideChannel::rank)
      .def_property_readonly("size", &SideChannel::size)
      .def_property_readonly("sent", [](const SideChannel& self) { return self.sent().value; })
      .def(
          "gather",
          [](SideChannel& self, const py::bytes& mine) {
            const std::string text = mine;
            std::vector<std::string> texts;
            {
              const py::gil_scoped_release no_gil;
              texts = self.gather(text);
            }
            return std::vector<py::bytes>(texts.begin(), texts.end());
          },
          py::arg("mine"))
      .def("sum", &SideChannel::sum, NoGil(), py::arg("tensor"))
      .def("broadcast", &SideChannel::broadcast, NoGil(), py::arg("tensor"));
}

}  // namespace
}  // namespace pliant::native

PYBIND11_MODULE(_native, module) {
  module.doc() = "The C++ core of pliant, bound to the torch it was built with.";
  module.attr("version") = std::string(pliant::version());
  module.attr("torch_version") = PLIANT_TORCH_VERSION;
  pliant::native::register_errors();
  module.def(
      "read_duration",
      [](const std::string& text, const std::string& what) {
        return pliant::parse_duration(text, what).value;
      },
      pybind11::arg("text"), pybind11::arg("what"));
  module.def(
      "size_text", [](std::int64_t bytes) { return to_string(pliant::Bytes{bytes}); },
      pybind11::arg("bytes"));
  module.def(
      "duration_text", [](double seconds) { return to_string(pliant::Seconds{seconds}); },
      pybind11::arg("seconds"));
  module.def("layout", &pliant::native::layout, pybind11::arg("parameter"));
  module.def("completed_with", &pliant::native::completed_with, pybind11::arg("work"),
             pybind11::arg("value"));
  module.def("wait_for_completions", &pliant::native::wait_for_completions,
             pybind11::call_guard<pybind11::gil_scoped_release>());
  module.def("simd_targets", &pliant::native::simd_targets);
  module.def("hash", &pliant::native::hash_of, pybind11::arg("tensors"));
  module.def("sample", &pliant::native::sample_of, pybind11::arg("tensors"));
  pliant::native::bind_values(module);
  pliant::native::bind_state(module);
  pliant::native::bind_plan(module);
  pliant::native::bind_options(module);
  pliant::native::bind_groups(module);
  pliant::native::bind_engine(module);
  pliant::native::bind_side_channel(module);
}
