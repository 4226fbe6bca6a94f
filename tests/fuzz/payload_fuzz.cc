// SPDX-License-Identifier: MIT
// libFuzzer on the payload decoder: no crash, and whatever is accepted is a selection. Needs clang:
//
//   cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++
//   -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPLIANT_MPI=OFF \
//         -DPLIANT_TESTS=OFF -DPLIANT_FUZZ=ON -DPLIANT_SANITIZE=address,undefined,fuzzer-no-link
//   cmake --build build/fuzz --target payload_fuzz && build/fuzz/tests/fuzz/payload_fuzz
//   -max_len=8192 -max_total_time=60
//
// The first byte picks codes and contents. The second, if odd, has the checksum put right, so that
// the fuzzer gets past it.
#include <cstdint>
#include <vector>

#include "tests/support/hostile_decode.h"
#include "tests/support/payload_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pliant::compress;
  static HostileDecoder decoder;
  if (size < 2) return 0;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first + 2, first + size);
  if (data[1] % 2 == 1) sign(bytes);
  decoder.accepts(bytes, hostile_envelope(data[0]));
  return 0;
}

// Starts from real payloads, which noise would never become: now and then one of them takes the
// place of the input.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace pliant::compress;
  if (seed % 64 == 0 || size < 2) {
    std::mt19937 random(seed);
    Entries entries = random_entries(random, kHostileLength, 0.0005 * (random() % 8));
    const auto payload = encoded(hostile_envelope(seed / 64), entries);
    if (payload.size() + 2 > max_size) return LLVMFuzzerMutate(data, size, max_size);
    data[0] = static_cast<std::uint8_t>(seed / 64 % 36);
    data[1] = 1;
    std::memcpy(data + 2, payload.data(), payload.size());
    size = payload.size() + 2;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
