// SPDX-License-Identifier: MIT
#include "pliant/engine/services.h"

namespace pliant::engine {

void Services::post(agree::Record record) {
  record.part = part;
  record_lane().run([this, record](comm::Communicator& communicator) {
    try {
      failure.check();
      records->gather(communicator, record);
    } catch (...) {
      fail_with_current_exception();
    }
  });
}

void Services::fail_with_current_exception() {
  failure.note(std::current_exception());
  records->wake();
}

void Services::drain() {
  for (const auto& lane : lanes) lane->drain();
  record_lane().drain();
}

void Services::say(Severity severity, std::string_view text) {
  if (severity == Severity::kWarning) observer.message(severity, text);
  if (log) log(severity, text);
}

void Services::warn_if_log_failed() {
  if (const auto why = observer.new_failure())
    say(Severity::kWarning, *why + "; nothing more is written there");
}

}  // namespace pliant::engine
