// SPDX-License-Identifier: MIT
#include "tests/conformance/c10d_groups.h"

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "pliant/comm/c10d/communicator.h"

namespace pliant::testing {
namespace {

using Gloo = ::c10d::ProcessGroupGloo;

std::chrono::milliseconds milliseconds(Seconds s) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(s.value * 1000));
}

// A client of a server that has ended.
c10::intrusive_ptr<::c10d::Store> abandoned_store() {
  ::c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto server = c10::make_intrusive<::c10d::TCPStore>("127.0.0.1", options);
  options.isServer = false;
  options.port = server->getPort();
  options.timeout = std::chrono::seconds(1);
  return c10::make_intrusive<::c10d::TCPStore>("127.0.0.1", options);
}

}  // namespace

struct C10dGroup::Parts {
  int size;
  Seconds group_timeout;
  Seconds asking;
  c10::intrusive_ptr<::c10d::Store> meeting = c10::make_intrusive<::c10d::HashStore>();
  c10::intrusive_ptr<::c10d::Store> words;
  c10::intrusive_ptr<::c10d::Store> first_words = c10::make_intrusive<::c10d::HashStore>();
};

C10dGroup::C10dGroup(int size, Words words, Seconds group_timeout, Seconds asking)
    : parts_(new Parts{.size = size, .group_timeout = group_timeout, .asking = asking}) {
  if (words == Words::kStore)
    parts_->words = c10::make_intrusive<::c10d::PrefixStore>("words", parts_->meeting);
  if (words == Words::kGone) parts_->words = abandoned_store();
}
C10dGroup::~C10dGroup() = default;

void C10dGroup::share_first_words(const C10dGroup& other) {
  parts_->first_words = other.parts_->first_words;
}

std::unique_ptr<comm::Communicator> C10dGroup::join(int rank) const {
  const auto options = Gloo::Options::create(milliseconds(parts_->group_timeout));
  options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  auto group =
      c10::make_intrusive<Gloo>(c10::make_intrusive<::c10d::PrefixStore>("gloo", parts_->meeting),
                                rank, parts_->size, options);
  comm::c10d::Options ours{
      .store = parts_->words, .common = parts_->first_words, .asking = parts_->asking};
  for (int r = 0; r < parts_->size; ++r) ours.names.push_back("host-" + std::to_string(r));
  return comm::c10d::over(std::move(group), std::move(ours));
}

}  // namespace pliant::testing
