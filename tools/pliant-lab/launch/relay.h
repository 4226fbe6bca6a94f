// SPDX-License-Identifier: MIT
// Relay of the hosts' output to the lab's own, in whole lines, each with a prefix that names the
// host.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "tools/pliant-lab/host/sys.h"

namespace pliant::lab {

class Relay {
 public:
  using Rewrite = std::function<std::string(const std::string& line)>;

  // A pipe's writing end for a child; what comes out of it is rewritten and goes to `to`.
  [[nodiscard]] Fd add(int to, Rewrite rewrite);
  void add_to(std::vector<pollfd>& waiting) const;
  void pump();   // what is there now, without waiting
  void drain();  // until every writer is gone

 private:
  struct Stream {
    Fd from;
    int to;
    Rewrite rewrite;
    std::string partial;  // a line that has not ended
  };
  static void pump(Stream& stream);
  static void emit(Stream& stream, std::string_view text);

  std::vector<Stream> streams_;
};

[[nodiscard]] Relay::Rewrite prefix_with(const std::string& prefix);
// mpirun --tag-output writes "[1,2]<stdout>:text" for rank 2: "[host 2] text" for us.
[[nodiscard]] std::string rewrite_mpi_tag(const std::string& line);

}  // namespace pliant::lab
