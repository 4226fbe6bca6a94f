// SPDX-License-Identifier: MIT
#include "python/native/plan.h"

#include <pybind11/operators.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "pliant/plan/pins.h"
#include "pliant/plan/plan.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

template <typename Word>
std::string text_of(Word word) {
  return std::string(to_string(word));
}

template <typename Word>
std::optional<std::string> text_of(std::optional<Word> word) {
  return word ? std::optional(text_of(*word)) : std::nullopt;
}

template <typename Class, typename Word>
void def_word(py::class_<Class>& bound, const char* name, Word Class::*part) {
  bound.def_property_readonly(name, [part](const Class& self) { return text_of(self.*part); });
}

// Plan and Pins have the same parts; those of Pins are optional.
template <typename Class>
void def_parts(py::class_<Class>& bound) {
  def_word(bound, "kind", &Class::kind);
  bound.def_readonly("every", &Class::every).def_readonly("late", &Class::late);
  def_word(bound, "scheme", &Class::scheme);
  def_word(bound, "leader", &Class::leader);
  def_word(bound, "scatter", &Class::scatter);
  def_word(bound, "gather", &Class::gather);
  def_word(bound, "bcast", &Class::bcast);
  bound.def_readonly("segments", &Class::segments);
  def_word(bound, "reduce", &Class::reduce);
  bound.def_readonly("density", &Class::density);
  def_word(bound, "values", &Class::values);
  def_word(bound, "indices", &Class::indices);
  def_word(bound, "fuse", &Class::fuse);
  bound.def("__str__", [](const Class& self) { return to_string(self); })
      .def("__repr__", [](const Class& self) { return to_string(self); })
      .def(py::self == py::self);
}

}  // namespace

void bind_plan(py::module_& module) {
  py::class_<plan::Plan> plan(module, "Plan");
  plan.def(py::init([](const std::string& text) { return plan::parse_plan(text); }),
           py::arg("text"));
  def_parts(plan);
  py::class_<plan::Pins> pins(module, "Pins");
  pins.def(py::init([](const std::string& text) { return plan::parse_pins(text); }),
           py::arg("text"));
  def_parts(pins);
}

}  // namespace pliant::native
