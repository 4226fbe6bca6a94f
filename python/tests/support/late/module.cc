// SPDX-License-Identifier: MIT
// Python module late_device: loading it registers the device, the rest steers it.
#include <torch/csrc/utils/pybind.h>

#include "python/tests/support/late/backend.h"
#include "python/tests/support/late/memory.h"
#include "python/tests/support/late/streams.h"

namespace py = pybind11;

PYBIND11_MODULE(late_device, module) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  module.doc() = "A device for tests whose memory is hidden and whose streams are late.";
  module.attr("device_count") = late::kDevices;
  module.def(
      "set_delays",
      [](unsigned seed, unsigned least, unsigned most, unsigned period) {
        late::set_delays({.seed = seed, .least = least, .most = most, .period = period});
      },
      py::arg("seed") = 1, py::arg("least") = 0, py::arg("most") = 400, py::arg("period") = 3);
  py::enum_<late::Waiter>(module, "Waiter")
      .value("NOBODY", late::Waiter::kNobody)
      .value("POOL", late::Waiter::kPool)
      .value("DEFAULT_STREAM", late::Waiter::kDefaultStream)
      .value("HOST", late::Waiter::kHost);
  module.def("drop_waits", &late::drop_waits, py::arg("waiter"));
  module.def("refuse_memory", &late::refuse_memory, py::arg("bytes"));
  module.def("refuse_pinned", &late::refuse_pinned, py::arg("refuse"));
  module.def("pinned_allocations", &late::pinned_allocations);
  module.def("current_device", &late::current_device);
  module.def("set_device", &late::set_current_device, py::arg("device"));
  module.def("synchronize", &late::synchronize, NoGil(), py::arg("device"));
  module.def(
      "staged",
      [](const py::object& gloo) {
        return late::staged(c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(
            py::cast<c10d::Backend*>(gloo)));
      },
      py::arg("gloo"));
}
