// SPDX-License-Identifier: MIT
#include "python/native/options.h"

#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "pliant/engine/dials.h"
#include "pliant/engine/options.h"
#include "pliant/plan/pins.h"
#include "python/native/errors.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

using engine::Options;
using engine::RunLogOptions;
using engine::WarmUp;

// A value whose bound attributes are those that the keywords name.
template <typename T>
T from_keywords(const py::kwargs& keywords) {
  const py::object made = py::cast(T{});
  for (const auto& [name, value] : keywords) py::setattr(made, name, value);
  return py::cast<T>(made);
}

// A callable that any thread may call and drop.
Log log_to(py::object sink) {
  return [call = kept(std::move(sink))](Severity severity, std::string_view text) {
    if (interpreter_is_ending()) return;
    const py::gil_scoped_acquire gil;
    (*call)(static_cast<int>(severity), std::string(text));
  };
}

void set_deadline(Options& options, std::optional<double> seconds) {
  options.deadline = seconds ? std::optional(Seconds{*seconds}) : std::nullopt;
}

// Pinned plans read warm_up and warm_up_steps, chosen plans read control.warm_up_steps.
void set_warm_up(Options& options, std::optional<std::int64_t> steps) {
  if (!steps) return;
  if (*steps > 0 && options.warm_up == WarmUp::kNone) options.warm_up = WarmUp::kDense;
  options.warm_up_steps = *steps;
  options.control.warm_up_steps = *steps;
}

void set_dials(Options& options, const std::map<std::string, double>& dials) {
  for (const auto& [name, value] : dials) engine::turn_dial(options, name, value);
}

}  // namespace

void bind_options(py::module_& module) {
  py::class_<RunLogOptions>(module, "RunLogOptions")
      .def(py::init(&from_keywords<RunLogOptions>))
      .def_readwrite("path", &RunLogOptions::path)
      .def_readwrite("name", &RunLogOptions::name)
      .def_readwrite("command", &RunLogOptions::command)
      .def_readwrite("versions", &RunLogOptions::versions)
      .def_readwrite("options", &RunLogOptions::options)
      .def_readwrite("watched", &RunLogOptions::watched);
  py::class_<Options>(module, "Options")
      .def(py::init(&from_keywords<Options>))
      .def_property(
          "plan", [](const Options& self) { return self.pins; },
          [](Options& self, const std::string& text) { self.pins = plan::parse_pins(text); })
      .def_readwrite("updates", &Options::updates)
      .def_readwrite("shared", &Options::shared)
      .def_readwrite("adam", &Options::adam)
      .def_readwrite("check_every", &Options::check_every)
      .def_readwrite("clip_norm", &Options::clip_norm)
      .def_readwrite("facts", &Options::facts)
      .def_readwrite("run_log", &Options::run_log)
      .def_readwrite("objection", &Options::objection)
      .def_property("deadline", nullptr, &set_deadline)
      .def_property("warm_up", nullptr, &set_warm_up)
      .def_property("ramp", nullptr,
                    [](Options& self, bool ramp) {
                      if (ramp) self.warm_up = WarmUp::kRamp;
                    })
      .def_property("policy", nullptr,
                    [](Options& self, const std::string& text) {
                      self.control.policy = engine::parse_policy(text);
                    })
      .def_property("goal", nullptr,
                    [](Options& self, const std::string& text) {
                      self.control.goal = engine::parse_goal(text);
                    })
      .def_property("dials", nullptr, &set_dials)
      .def_property("log", nullptr,
                    [](Options& self, py::object sink) { self.log = log_to(std::move(sink)); });
}

}  // namespace pliant::native
