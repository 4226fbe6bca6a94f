// SPDX-License-Identifier: MIT
// Operators of the late device. Copies and operators that write in place are tasks of the current
// stream. All others wait for the current stream, compute on the host, and write their results by a
// task of the stream. So whoever reads a result without waiting for that stream finds NaN, or what
// was there before.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>

#include "python/tests/support/late/memory.h"
#include "python/tests/support/late/streams.h"

namespace late {
namespace {

bool is_late(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

Stream& stream_of(const at::Tensor& tensor) { return current(tensor.device().index()); }

// The same memory for kernels. It does not keep the memory, as a kernel of a real device does not.
at::Tensor for_kernels(const at::Tensor& tensor) {
  if (!is_late(tensor)) return tensor;
  void* data = tensor.numel() == 0 ? nullptr : late::for_kernels(tensor.data_ptr());
  at::Tensor host =
      at::from_blob(data, tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    host.unsafeGetTensorImpl()->set_wrapped_number(true);
  return host;
}

at::Tensor without_owner(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options());
}

// Runs in a thread of a stream as below autograd.
template <typename Body>
void enqueue(Stream& stream, Body body) {
  stream.run([body = std::move(body)] {
    const at::AutoDispatchBelowADInplaceOrView below;
    body();
  });
}

// --- memory ---

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pin, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, "late: only strided tensors");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin), "late: only memory of the CPU can be pinned");
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_generic(size, c10::GetAllocator(c10::kPrivateUse1),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                         std::optional<bool> pin) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pin), "late: only memory of the CPU can be pinned");
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(c10::kPrivateUse1),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<c10::MemoryFormat> format) {
  const std::int64_t entries = c10::multiply_integers(size);
  const auto bytes = static_cast<std::size_t>(entries + self.storage_offset()) * self.itemsize();
  const c10::DeviceGuard guard(self.device());
  if (bytes > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  if (format && *format != c10::MemoryFormat::Preserve)
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  if (stride.size() == size.size()) {
    self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  } else {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  }
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const auto entries = static_cast<std::int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {entries}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  const at::Tensor none = at::empty({0}, self.options());
  return set_tensor(self, none);
}

// --- copies ---

void copy_on(Stream& stream, const at::Tensor& from, const at::Tensor& to) {
  enqueue(stream, [from, to] { to.copy_(from); });
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const at::Tensor from = self.sizes() == to.sizes() ? self : self.expand(to.sizes());
  Stream& stream = stream_of(is_late(to) ? to : from);
  if (is_late(from) && is_late(to)) {
    if (from.device() != to.device()) {
      stream_of(from).synchronize();
      copy_on(stream, for_kernels(from).clone(), for_kernels(to));
      stream.synchronize();
    } else {
      copy_on(stream, for_kernels(from), for_kernels(to));
    }
    return to;
  }
  const at::Tensor& host = is_late(from) ? to : from;
  const auto kept = keep_pinned(host.data_ptr());
  if (non_blocking && kept != nullptr) {
    // As on CUDA, a conversion that nobody waits for takes memory of the device.
    const c10::Device device = is_late(to) ? to.device() : from.device();
    if (from.scalar_type() != to.scalar_type())
      at::empty(host.sizes(), host.options().pinned_memory(false).device(device));
    const at::Tensor source = is_late(from) ? for_kernels(from) : without_owner(from);
    const at::Tensor target = is_late(to) ? for_kernels(to) : without_owner(to);
    enqueue(stream, [source, target, kept] { target.copy_(source); });
  } else if (is_late(to)) {
    copy_on(stream, from.clone(), for_kernels(to));
    if (!non_blocking) stream.synchronize();
  } else {
    copy_on(stream, for_kernels(from), to);
    stream.synchronize();
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

// A result of the host, on the device.
at::Tensor to_device(const at::Tensor& computed, c10::Device device) {
  if (!computed.defined()) return computed;
  at::Tensor host = computed.is_non_overlapping_and_dense() ? computed : computed.contiguous();
  if (is_for_kernels(host.const_data_ptr())) host = host.clone();  // it is an argument
  at::Tensor result =
      at::empty_strided(host.sizes(), host.strides(), host.options().device(device));
  if (host.numel() > 0) copy_on(stream_of(result), host, for_kernels(result));
  return result;
}

void record_stream(at::Tensor& self, c10::Stream used) {
  used_by(self.storage().data(), stream(used.device_index(), static_cast<int>(used.id())));
}

// --- everything else ---

// Each tensor in an argument becomes what `change` makes of it.
template <typename Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

template <typename Body>
void for_each_tensor(const c10::IValue& value, const Body& body) {
  changed(value, [&](const at::Tensor& tensor) {
    body(tensor);
    return tensor;
  });
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

struct Call {
  const c10::OperatorHandle& op;
  std::vector<c10::IValue> arguments;
  std::optional<c10::Device> device = std::nullopt;
  bool is_random = false;
  bool has_host_tensors = false;

  void look() {
    for (const c10::IValue& argument : arguments) {
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        if (is_late(tensor)) {
          if (!device) device = tensor.device();
        } else if (tensor.defined() && tensor.dim() > 0) {
          has_host_tensors = true;
        }
      });
      if (!device && argument.isDevice()) device = argument.toDevice();
    }
    for (const c10::Argument& argument : op.schema().arguments())
      is_random |= argument.type()->str().find("Generator") != std::string::npos;
    if (!device)
      device = c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(current_device()));
  }

  // Whether nothing but arguments is written, and their sizes stay. torch makes results of the
  // right size for most operators and calls the overload that writes into them.
  [[nodiscard]] bool is_in_place() const {
    const auto& schema = op.schema();
    const std::string& name = schema.name();
    if (name.find("resize") != std::string::npos) return false;
    bool writes = false;
    bool has_place = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!is_written(schema.arguments()[i])) continue;
      writes = true;
      for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
        has_place = has_place && is_late(tensor) && tensor.dim() > 0 && tensor.numel() > 0;
      });
    }
    const bool has_outputs = schema.overload_name().find("out") != std::string::npos;
    return writes && (name.back() == '_' || (has_outputs && has_place));
  }
};

void run_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

void run_in_place(const Call& call, torch::jit::Stack* stack) {
  torch::jit::Stack host;
  for (const c10::IValue& argument : call.arguments) {
    host.push_back(changed(argument, [](const at::Tensor& tensor) {
      return is_late(tensor) || !tensor.defined() ? for_kernels(tensor) : tensor.clone();
    }));
  }
  enqueue(current(call.device->index()), [op = call.op, host] {
    torch::jit::Stack own = host;
    run_host(op, &own);
  });
  std::vector<c10::IValue> written;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    if (is_written(call.op.schema().arguments()[i])) written.push_back(call.arguments[i]);
  }
  for (std::size_t i = 0; i < call.op.schema().returns().size(); ++i)
    stack->push_back(written.at(i));
}

void run_now(const Call& call, torch::jit::Stack* stack) {
  const auto& schema = call.op.schema();
  Stream& stream = current(call.device->index());
  stream.synchronize();
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // where it belongs, what it is
  torch::jit::Stack host;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::IValue& argument = call.arguments[i];
    const bool is_output = is_written(schema.arguments()[i]);
    if (argument.isDevice()) {
      host.emplace_back(c10::Device(c10::kCPU));
      continue;
    }
    host.push_back(changed(argument, [&](const at::Tensor& tensor) {
      at::Tensor here = for_kernels(tensor);
      if (is_output && is_late(tensor)) {
        here = here.clone();
        written.emplace_back(tensor, here);
      }
      return here;
    }));
  }
  run_host(call.op, &host);
  for (const auto& [to, from] : written) {
    if (to.sizes() != from.sizes()) to.resize_(from.sizes());
    if (to.numel() > 0) copy_on(stream, from, for_kernels(to));
  }
  std::size_t outputs = 0;
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    const auto* alias = schema.returns()[i].alias_info();
    TORCH_CHECK(alias == nullptr || alias->isWrite(), "late: no view by ", schema.name());
    if (alias != nullptr) {
      stack->push_back(c10::IValue(written.at(outputs++).first));
    } else {
      stack->push_back(changed(
          host.at(i), [&](const at::Tensor& tensor) { return to_device(tensor, *call.device); }));
    }
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call call{.op = op, .arguments = torch::jit::pop(*stack, op.schema().arguments().size())};
  call.look();
  const c10::DeviceGuard guard(*call.device);
  if (call.is_in_place() && !call.is_random && !call.has_host_tensors) {
    run_in_place(call, stack);
  } else {
    run_now(call, stack);
  }
}

// torch chooses these for devices that it does not know.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                       c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, std::int64_t groups) {
  stream_of(input).synchronize();
  const auto host_bias = bias ? std::optional(for_kernels(*bias)) : std::nullopt;
  return to_device(at::convolution(for_kernels(input), for_kernels(weight), host_bias, stride,
                                   padding, dilation, transposed, output_padding, groups),
                   input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> mask) {
  stream_of(input).synchronize();
  const auto host = at::convolution_backward(
      for_kernels(gradient), for_kernels(input), for_kernels(weight),
      c10::IntArrayRef{weight.size(transposed ? 1 : 0) * (transposed ? groups : 1)}, stride,
      padding, dilation, transposed, output_padding, groups, mask);
  const auto back = [&](const at::Tensor& tensor) { return to_device(tensor, input.device()); };
  return {back(std::get<0>(host)), back(std::get<1>(host)), back(std::get<2>(host))};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize);
  m.impl("as_strided", [](const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                          std::optional<std::int64_t> offset) {
    return at::native::as_strided_tensorimpl(self, size, stride, offset);
  });
  m.impl("view", [](const at::Tensor& self, c10::IntArrayRef size) {
    return at::native::view(self, size);
  });
  m.impl("_reshape_alias",
         [](const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
           return at::native::_reshape_alias(self, size, stride);
         });
  m.impl("set_", set_nothing);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("record_stream", record_stream);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace
}  // namespace late
