// SPDX-License-Identifier: MIT
#include "python/tests/support/late/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <system_error>
#include <unordered_map>

namespace late {
namespace {

// Reserved, not used: pages come with the first write.
constexpr std::size_t kSpace = std::size_t{32} << 30;
constexpr std::size_t kAlign = 512;

struct Space {
  std::byte* forbidden;  // for tensors
  std::byte* kernels;    // the same pages
};

struct sigaction previous_handler;
const Space* space_of_handler = nullptr;

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  if (space_of_handler != nullptr && at >= space_of_handler->forbidden &&
      at < space_of_handler->forbidden + kSpace) {
    constexpr char kWord[] = "late device: the host touched memory of the device\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kWord, sizeof kWord - 1);
    sigaction(signal, &previous_handler, nullptr);  // its traceback, and the end
    if (previous_handler.sa_handler == SIG_IGN) std::signal(signal, SIG_DFL);
    return;  // the access is tried again, and fails again
  }
  sigaction(signal, &previous_handler, nullptr);
  static_cast<void>(context);
}

const Space& space() {
  static const Space& made = *[] {
    const int pages = memfd_create("late", MFD_CLOEXEC);
    if (pages < 0 || ftruncate(pages, static_cast<off_t>(kSpace)) != 0)
      throw std::system_error(errno, std::generic_category(), "late: memfd_create");
    const auto map = [&](int protection) {
      void* at = mmap(nullptr, kSpace, protection, MAP_SHARED | MAP_NORESERVE, pages, 0);
      if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "late: mmap");
      return static_cast<std::byte*>(at);
    };
    const auto* both =
        new Space{.forbidden = map(PROT_NONE), .kernels = map(PROT_READ | PROT_WRITE)};
    close(pages);
    space_of_handler = both;
    struct sigaction handler = {};
    handler.sa_sigaction = on_fault;
    handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &handler, &previous_handler);
    return both;
  }();
  return made;
}

struct Block {
  std::size_t bytes = 0;
  Stream* owner = nullptr;
  std::set<Stream*> users = {};
};

struct Blocks {
  std::mutex mutex;
  std::size_t end = 0;
  std::map<const void*, Block> used;
  std::map<std::pair<Stream*, std::size_t>, std::vector<void*>> free;
};

Blocks& blocks() {
  static auto& all = *new Blocks;
  return all;
}

std::atomic<std::size_t> refused_from{0};

struct Pinned {
  std::mutex mutex;
  std::map<const std::byte*, std::pair<std::size_t, std::shared_ptr<void>>> used;
  bool refused = false;
  std::size_t allocations = 0;
};

Pinned& pinned() {
  static auto& all = *new Pinned;
  return all;
}

}  // namespace

void* allocate(std::size_t bytes, Stream& stream) {
  if (bytes == 0) return nullptr;
  const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  auto& free = all.free[{&stream, rounded}];
  void* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
  } else {
    if (all.end + rounded > kSpace) throw std::runtime_error("late: out of device memory");
    block = space().forbidden + all.end;
    all.end += rounded;
  }
  all.used[block] = {.bytes = rounded, .owner = &stream};
  return block;
}

void free(void* block) {
  if (block == nullptr) return;
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto found = all.used.extract(block);
  const Block& gone = found.mapped();
  for (Stream* user : gone.users) {
    Event passed;
    passed.record(*user);
    passed.block(*gone.owner);
  }
  gone.owner->run([at = for_kernels(block), bytes = gone.bytes] { std::memset(at, 0xff, bytes); });
  all.free[{gone.owner, gone.bytes}].push_back(block);
}

void used_by(const void* block, Stream& stream) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto found = all.used.find(block);
  if (found != all.used.end() && found->second.owner != &stream)
    found->second.users.insert(&stream);
}

void refuse_memory(std::size_t bytes) { refused_from = bytes; }

bool is_refused(std::size_t bytes) { return refused_from > 0 && bytes >= refused_from; }

int device_of(const void* block) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto after = all.used.upper_bound(block);
  return after == all.used.begin() ? 0 : std::prev(after)->second.owner->device();
}

void* for_kernels(const void* address) {
  if (address == nullptr) return nullptr;
  return space().kernels + (static_cast<const std::byte*>(address) - space().forbidden);
}

bool is_for_kernels(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= space().kernels && at < space().kernels + kSpace;
}

void* allocate_pinned(std::size_t bytes) {
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  if (all.refused) throw std::runtime_error("late: pinned memory is refused");
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  std::shared_ptr<void> memory(std::aligned_alloc(64, rounded), std::free);
  auto* at = static_cast<std::byte*>(memory.get());
  all.used[at] = {rounded, std::move(memory)};
  ++all.allocations;
  return at;
}

void free_pinned(void* block) {
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  all.used.erase(static_cast<std::byte*>(block));
}

void refuse_pinned(bool refuse) {
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  all.refused = refuse;
}

std::shared_ptr<void> keep_pinned(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  auto after = all.used.upper_bound(at);
  if (after == all.used.begin()) return nullptr;
  const auto& [begin, block] = *--after;
  return at < begin + block.first ? block.second : nullptr;
}

bool is_pinned(const void* address) { return keep_pinned(address) != nullptr; }

std::size_t pinned_allocations() {
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  return all.allocations;
}

}  // namespace late
