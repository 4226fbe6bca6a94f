// SPDX-License-Identifier: MIT
#include "python/native/errors.h"

#include <Python.h>

#include <string>
#include <utility>

#include "pliant/comm/errors.h"
#include "pliant/common/errors.h"
#include "pliant/compress/payload.h"
#include "pliant/exchange/complaint.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

void set(const char* name, const std::exception& error) {
  const py::object type = py::module_::import("pliant.errors").attr(name);
  PyErr_SetString(type.ptr(), error.what());
}

void set(const comm::CommError& error, const char* name) {
  const comm::Failure& failure = error.failure();
  const py::object type = py::module_::import("pliant.errors").attr(name);
  const py::object value = type(error.what());
  value.attr("rank") = failure.rank;
  value.attr("peer") =
      failure.peer < 0 ? py::object(py::none()) : py::object(py::int_(failure.peer));
  value.attr("culprit") =
      failure.culprit ? py::object(py::int_(*failure.culprit)) : py::object(py::none());
  value.attr("epoch") = failure.place.plan_version;
  PyErr_SetObject(type.ptr(), value.ptr());
}

// Sets Python's error, or lets pass what is not ours.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature that pybind11 asks for
void translate(std::exception_ptr why) {
  try {
    if (why) std::rethrow_exception(why);
  } catch (const comm::AbsentError& error) {
    set(error, "AbsentError");
  } catch (const comm::CommError& error) {
    set(error, "CommError");
  } catch (const Disagreement& error) {
    set("DisagreementError", error);
  } catch (const Diverged& error) {
    set("DivergedError", error);
  } catch (const ContractError& error) {
    set("ContractError", error);
  } catch (const compress::PayloadError& error) {
    set("PayloadError", error);
  } catch (const exchange::RefusedByPeer& error) {
    set("PayloadError", error);
  } catch (const InputError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const IoError& error) {
    PyErr_SetString(PyExc_OSError, error.what());
  }
}

}  // namespace

void register_errors() { py::register_exception_translator(translate); }

std::exception_ptr as_python_error(const std::exception_ptr& why) {
  try {
    translate(why);
  } catch (py::error_already_set&) {
    return std::current_exception();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError,
                    "pliant: an exception that is none of the standard library's");
  }
  return std::make_exception_ptr(py::error_already_set());
}

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#else
  return _Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#endif
}

std::shared_ptr<py::object> kept(py::object object) {
  return {new py::object(std::move(object)), [](py::object* mine) {
            if (interpreter_is_ending()) return;
            const py::gil_scoped_acquire gil;
            delete mine;
          }};
}

}  // namespace pliant::native
