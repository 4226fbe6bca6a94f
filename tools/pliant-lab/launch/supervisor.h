// SPDX-License-Identifier: MIT
// Supervisor of a job in a lab: waits for it and ends it when the first host fails, on Ctrl-C, at
// the time limit, or when the switch is lost.
#pragma once

#include <optional>
#include <vector>

#include "tools/pliant-lab/launch/lab.h"
#include "tools/pliant-lab/launch/relay.h"

namespace pliant::lab {

struct Supervised {
  std::string name;  // "host 2"; empty: its failure is not reported
  Child process;
};

// Blocks the signals that a Supervisor handles; before anything is started, so that none is missed.
void block_signals();

class Supervisor {
 public:
  Supervisor(Lab& lab, std::vector<Supervised> processes, Relay relay,
             std::optional<Seconds> timeout);
  // The exit status of the job. When it returns, nothing of the lab is left.
  [[nodiscard]] int run();

 private:
  void wait_for_something();
  void handle_signals();
  void reap();
  void check_limits();
  void end_others(int signal, int status);
  void finish();
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] int milliseconds_left() const;

  Lab& lab_;
  std::vector<Supervised> processes_;
  Relay relay_;
  Fd signals_;
  std::optional<Time> time_limit_;
  std::optional<Time> kill_at_;  // set once the job is being ended
  std::optional<int> status_;
};

}  // namespace pliant::lab
