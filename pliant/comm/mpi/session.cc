// SPDX-License-Identifier: MIT
#include "pliant/comm/mpi/session.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "pliant/comm/mpi/communicator.h"
#include "pliant/common/errors.h"

namespace pliant::comm::mpi {
namespace {

void check(int code, const char* attempt) {
  if (code != MPI_SUCCESS) throw IoError(fmt::format("{}: MPI error {}", attempt, code));
}

// How long a rank that has seen a failure waits for the others before MPI_Finalize. They may be
// about to see the same failure, by a deadline of their own.
constexpr std::chrono::seconds kFarewell{5};

// Ranks that have seen no failure wait as long as MPI_Finalize would.
bool everybody_comes() {
  MPI_Request everybody = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &everybody) != MPI_SUCCESS) return false;
  if (!left_unfinished()) return MPI_Wait(&everybody, MPI_STATUS_IGNORE) == MPI_SUCCESS;
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  int done = 0;
  while (MPI_Test(&everybody, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done != 0;
}

}  // namespace

Session::Session(int* argc, char*** argv) {
  int up = 0;
  MPI_Initialized(&up);
  if (up != 0) return;
  int level = 0;
  check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level), "starting MPI");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // so that what fails is an exception
  started_ = true;
}

Session::~Session() {
  if (started_ && everybody_comes()) MPI_Finalize();
}

std::unique_ptr<Communicator> Session::world() const { return over(MPI_COMM_WORLD); }

void native_all_reduce(std::span<float> data) {
  check(MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD),
        "MPI_Allreduce");
}

void native_broadcast(std::span<float> data, int root) {
  check(MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_FLOAT, root, MPI_COMM_WORLD),
        "MPI_Bcast");
}

void native_all_gather(std::span<const float> mine, std::span<float> all) {
  const auto count = static_cast<int>(mine.size());
  const bool in_place = mine.data() >= all.data() && mine.data() < all.data() + all.size();
  const void* from = in_place ? MPI_IN_PLACE : mine.data();
  check(MPI_Allgather(from, count, MPI_FLOAT, all.data(), count, MPI_FLOAT, MPI_COMM_WORLD),
        "MPI_Allgather");
}

void native_reduce_scatter(std::span<const float> all, std::span<float> mine) {
  const auto count = static_cast<int>(mine.size());
  check(
      MPI_Reduce_scatter_block(all.data(), mine.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
      "MPI_Reduce_scatter_block");
}

bool simulated() {
#ifdef PLIANT_SMPI
  return true;
#else
  return false;
#endif
}

Region unread_memory(std::size_t size) {
#ifdef SMPI_SHARED_MALLOC
  auto* memory = static_cast<std::byte*>(SMPI_SHARED_MALLOC(size));
  return {{memory, size},
          std::shared_ptr<void>(memory, [](void* shared) { SMPI_SHARED_FREE(shared); })};
#else
  return region_of(Buffer<std::byte>(size));
#endif
}

void abort_job(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

std::string library_version() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text.substr(0, std::min(text.find_first_of(",\n"), text.find(". ")));
}

}  // namespace pliant::comm::mpi
