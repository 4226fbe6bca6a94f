// SPDX-License-Identifier: MIT
// The late device for torch: its allocators, its device guard and its hooks.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "python/tests/support/late/memory.h"
#include "python/tests/support/late/streams.h"

namespace late {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

c10::Device device(int index) { return {kType, static_cast<c10::DeviceIndex>(index)}; }

int index_of(c10::Device device) { return device.has_index() ? device.index() : current_device(); }

c10::Stream as_torch(const Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, device(stream.device()), stream.number());
}

Stream& from_torch(const c10::Stream& torch) {
  return stream(index_of(torch.device()), static_cast<int>(torch.id()));
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK_WITH(OutOfMemoryError, !is_refused(bytes), "late: out of memory: ", bytes,
                     " bytes are refused");
    Stream& now = current(current_device());
    void* block = late::allocate(bytes, now);
    return {block, block, &late::free, device(now.device())};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &late::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    Stream& now = current(current_device());
    now.run([=] { std::memcpy(for_kernels(to), for_kernels(from), bytes); });
  }
};

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = allocate_pinned(bytes);
    return {block, block, &free_pinned, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  // Copies keep the pinned memory that they use.
  bool record_event(void* /*ptr*/, void* /*ctx*/, c10::Stream /*stream*/) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

DeviceAllocator& device_allocator() {
  static auto& made = *new DeviceAllocator;
  return made;
}

PinnedAllocator& pinned_allocator() {
  static auto& made = *new PinnedAllocator;
  return made;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device wanted) const override {
    const int before = current_device();
    setDevice(wanted);
    return device(before);
  }
  c10::Device getDevice() const override { return device(current_device()); }
  void setDevice(c10::Device wanted) const override {
    TORCH_CHECK(index_of(wanted) < kDevices, "late: no device ", wanted);
    set_current_device(index_of(wanted));
  }
  void uncheckedSetDevice(c10::Device wanted) const noexcept override {
    if (wanted.has_index()) set_current_device(wanted.index());
  }
  c10::Stream getStream(c10::Device of) const override { return as_torch(current(index_of(of))); }
  c10::Stream getDefaultStream(c10::Device of) const override {
    return as_torch(stream(index_of(of), 0));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool /*high*/) const override {
    return as_torch(next_of_pool(index_of(of)));
  }
  c10::Stream getNewStream(c10::Device of, int /*priority*/) const override {
    return as_torch(next_of_pool(index_of(of)));
  }
  c10::Stream exchangeStream(c10::Stream wanted) const override {
    Stream& before = current(index_of(wanted.device()));
    set_current(from_torch(wanted));
    return as_torch(before);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& of) const override { return from_torch(of).is_idle(); }
  void synchronizeStream(const c10::Stream& of) const override { from_torch(of).synchronize(); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { late::synchronize(index); }

  void record(void** event, const c10::Stream& of, const c10::DeviceIndex /*index*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->record(from_torch(of));
  }
  void block(void* event, const c10::Stream& of) const override {
    if (event != nullptr) static_cast<Event*>(event)->block(from_torch(of));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->has_passed();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& of) const override {
    used_by(data.get(), from_torch(of));
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const int before = current_device();
    set_current_device(index);
    return static_cast<c10::DeviceIndex>(before);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchangeDevice(index);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  at::Device getDeviceFromPtr(void* data) const override { return device(device_of(data)); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*index*/) const override {
    return at::detail::getDefaultCPUGenerator();  // random operators run on the host
  }
  at::Generator getNewGenerator(c10::DeviceIndex /*index*/) const override {
    return at::detail::createCPUGenerator();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    c10::DataPtr larger = device_allocator().allocate(bytes);
    const std::size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) device_allocator().copy_data(larger.get(), storage.data(), kept);
    storage.set_data_ptr_noswap(std::move(larger));
    storage.set_nbytes(bytes);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &device_allocator());

[[maybe_unused]] const bool registered = [] {
  at::setHostAllocator(kType, &pinned_allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace late
