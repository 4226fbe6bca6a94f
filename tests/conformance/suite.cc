// SPDX-License-Identifier: MIT
#include "tests/conformance/suite.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "pliant/common/errors.h"

namespace pliant::conformance {
namespace {

using comm::CommError;
using comm::Communicator;
using comm::Patience;
using comm::Tag;
using comm::Ticket;

// Long enough for a busy machine; no test waits for it to pass.
const Patience kPatient{.deadline = Seconds{60}, .place = {}};

template <typename... Args>
void check(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds)
    throw std::runtime_error("conformance: " + fmt::format(text, std::forward<Args>(args)...));
}

// Bytes that tell sender, receiver and number of a message apart.
std::byte pattern(int from, int to, int number, std::size_t i) {
  return static_cast<std::byte>(
      (static_cast<std::size_t>(from * 31 + to * 17 + number * 7) + i * 13 + (i >> 8)) & 0xFF);
}

Buffer<std::byte> message(int from, int to, int number, std::size_t size) {
  Buffer<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = pattern(from, to, number, i);
  return out;
}

void check_message(const Buffer<std::byte>& got, std::size_t size, int from, int to, int number) {
  for (std::size_t i = 0; i < size; ++i) {
    check(got[i] == pattern(from, to, number, i),
          "message {} from {} to {}: byte {} of {} is wrong", number, from, to, i, size);
  }
}

// Everyone has reached this point when it returns.
void barrier(Communicator& c) {
  for (int distance = 1; distance < c.size(); distance *= 2) {
    const Ticket in = c.receive((c.rank() + c.size() - distance) % c.size(), 900, {});
    const Ticket out = c.send((c.rank() + distance) % c.size(), 900, {});
    c.wait(out, kPatient);
    c.wait(in, kPatient);
  }
}

// All pairs, `count` messages of each size, receives posted before or after the sends.
void all_pairs(Communicator& c, const std::vector<std::size_t>& sizes, int count,
               bool receives_first) {
  std::vector<Ticket> outgoing;
  std::vector<std::tuple<Ticket, Buffer<std::byte>, std::size_t, int, int>> incoming;
  const auto post_receives = [&] {
    for (int peer = 0; peer < c.size(); ++peer) {
      if (peer == c.rank()) continue;
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        for (int m = 0; m < count; ++m) {
          const Buffer<std::byte> room(sizes[s] + 16);  // more room than the message has
          incoming.emplace_back(c.receive(peer, static_cast<Tag>(s), comm::region_of(room)), room,
                                sizes[s], peer, m);
        }
      }
    }
  };
  if (receives_first) post_receives();
  for (int peer = 0; peer < c.size(); ++peer) {
    if (peer == c.rank()) continue;
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      for (int m = 0; m < count; ++m)
        outgoing.push_back(c.send(peer, static_cast<Tag>(s),
                                  comm::region_of(message(c.rank(), peer, m, sizes[s]))));
    }
  }
  if (!receives_first) post_receives();
  for (auto& [ticket, room, size, peer, m] : incoming) {
    const Bytes got = c.wait(ticket, kPatient);
    const std::size_t expected = c.capabilities().tells_length ? size : room.size();
    check(got.value == static_cast<std::int64_t>(expected),
          "message {} from {}: {} bytes instead of {}", m, peer, got.value, expected);
    check_message(room, size, peer, c.rank(), m);
  }
  for (const Ticket ticket : outgoing) c.wait(ticket, kPatient);
}

void messages_of_one_tag_arrive_in_order(Communicator& c) { all_pairs(c, {8}, 50, true); }
void many_messages_may_be_in_flight(Communicator& c) { all_pairs(c, {64, 4096}, 40, false); }
void sizes_from_nothing_to_several_mebibytes(Communicator& c) {
  all_pairs(c,
            {0, 1, 3, 1000, 65536, 70001, 1 << 20,
             c.size() <= 4 ? std::size_t{5} << 20 : std::size_t{1} << 20},
            1, true);
}

void large_tags_are_told_apart(Communicator& c) {
  const int right = (c.rank() + 1) % c.size();
  const int left = (c.rank() + c.size() - 1) % c.size();
  if (c.size() == 1) return;
  constexpr Tag kPromisedByMpi = 32767;  // the least that MPI_TAG_UB may be
  static_assert(comm::kLargestTag <= kPromisedByMpi);
  const std::vector<Tag> tags = {comm::kLargestTag, 0, 256, comm::kLargestTag - 1};
  std::vector<Buffer<std::byte>> rooms;
  std::vector<Ticket> in;
  std::vector<Ticket> out;
  for (std::size_t t = 0; t < tags.size(); ++t) {
    rooms.emplace_back(32);
    in.push_back(c.receive(left, tags[t], comm::region_of(rooms.back())));
  }
  for (std::size_t t = tags.size(); t-- > 0;)
    out.push_back(
        c.send(right, tags[t], comm::region_of(message(c.rank(), right, static_cast<int>(t), 32))));
  for (std::size_t t = 0; t < tags.size(); ++t) {
    c.wait(in[t], kPatient);
    check_message(rooms[t], 32, left, c.rank(), static_cast<int>(t));
  }
  for (const Ticket ticket : out) c.wait(ticket, kPatient);
}

// Regions without an owner: the sender's memory may go as soon as send() returns.
void memory_without_an_owner_is_copied(Communicator& c) {
  if (c.size() == 1) return;
  const int right = (c.rank() + 1) % c.size();
  const int left = (c.rank() + c.size() - 1) % c.size();
  Ticket out;
  {
    std::vector<std::byte> mine(100000);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = pattern(c.rank(), right, 1, i);
    out = c.send(right, 5, {mine, nullptr});
    std::memset(mine.data(), 0, mine.size());
  }
  const Buffer<std::byte> room(100000);
  const Ticket in = c.receive(left, 5, {room.span(), nullptr});
  check(c.wait(in, kPatient).value == 100000, "wrong size");
  check_message(room, room.size(), left, c.rank(), 1);
  c.wait(out, kPatient);
}

void waiting_in_any_order_works(Communicator& c) {
  if (c.size() == 1) return;
  const int right = (c.rank() + 1) % c.size();
  const int left = (c.rank() + c.size() - 1) % c.size();
  std::vector<Ticket> tickets;
  std::vector<Buffer<std::byte>> rooms;
  for (int m = 0; m < 10; ++m) {
    rooms.emplace_back(2000);
    tickets.push_back(c.receive(left, static_cast<Tag>(m), comm::region_of(rooms.back())));
    tickets.push_back(
        c.send(right, static_cast<Tag>(m), comm::region_of(message(c.rank(), right, m, 2000))));
  }
  for (std::size_t i = tickets.size(); i-- > 0;) c.wait(tickets[i], kPatient);
  for (int m = 0; m < 10; ++m)
    check_message(rooms[static_cast<std::size_t>(m)], 2000, left, c.rank(), m);
}

void its_own_all_reduce_sums_if_it_has_one(Communicator& c) {
  std::vector<float> data(1000, static_cast<float>(c.rank() + 1));
  if (!c.capabilities().own_all_reduce) {
    try {
      c.all_reduce(std::span(data), kPatient);
    } catch (const ContractError&) {
      return;
    }
    check(false, "all_reduce() of a backend that has none did not complain");
  }
  c.all_reduce(std::span(data), kPatient);
  const int sum = c.size() * (c.size() + 1) / 2;
  for (const float x : data) check(x == static_cast<float>(sum), "{} instead of {}", x, sum);
}

void the_clock_does_not_go_back(Communicator& c) {
  Seconds last = c.now();
  for (int i = 0; i < 1000; ++i) {
    const Seconds now = c.now();
    check(now >= last, "now() went from {} to {}", last.value, now.value);
    last = now;
  }
}

void misuse_is_the_callers_error(Communicator& c) {
  const auto refused = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const ContractError&) {
      return true;
    }
    return false;
  };
  check(refused([&] { (void)c.send(c.size(), 0, {}); }), "a peer beyond the group was accepted");
  check(refused([&] { (void)c.send(-1, 0, {}); }), "peer -1 was accepted");
  check(refused([&] { (void)c.send(c.rank(), 0, {}); }), "a message to oneself was accepted");
  check(refused([&] { (void)c.receive((c.rank() + 1) % c.size(), comm::kLargestTag + 1, {}); }),
        "a tag too large was accepted");
  check(refused([&] { (void)c.wait(Ticket{123456789}, kPatient); }),
        "an unknown ticket was accepted");
}

void a_message_longer_than_its_room_is_told_and_the_next_one_arrives(Communicator& c) {
  if (c.size() == 1) return;
  const int right = (c.rank() + 1) % c.size();
  const int left = (c.rank() + c.size() - 1) % c.size();
  const Buffer<std::byte> small(10);
  const Buffer<std::byte> enough(100);
  const Ticket first = c.receive(left, 6, comm::region_of(small));
  const Ticket second = c.receive(left, 6, comm::region_of(enough));
  const Ticket out = c.send(right, 6, comm::region_of(message(c.rank(), right, 1, 100)));
  const Ticket next = c.send(right, 6, comm::region_of(message(c.rank(), right, 2, 100)));
  check(c.wait(first, kPatient).value > 10, "a message of 100 bytes fitted into 10");
  check(c.wait(second, kPatient).value == 100, "the next message has another size");
  check_message(enough, 100, left, c.rank(), 2);
  c.wait(out, kPatient);
  c.wait(next, kPatient);
}

void expect_dead(Communicator& c, int peer) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      (void)c.send(peer, 1, {});
    } catch (const CommError& e) {
      check(std::string(e.what()).find("dead") != std::string::npos,
            "a dead communicator says '{}'", e.what());
      continue;
    }
    check(false, "a dead communicator accepted a message");
  }
}

// Nobody sends: rank 0's receive fails by its deadline and names rank, peer, bytes, round and plan
// epoch. It then drops the buffer of another receive, into which rank 1 sends afterwards: under
// ASan, memory that did not outlive the error shows.
void a_deadline_that_passes_is_an_error_that_names_everything(Communicator& c) {
  if (c.size() == 1) return;
  const int peer = (c.rank() + 1) % c.size();
  barrier(c);
  if (c.rank() > 0) {
    if (c.rank() > 1) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    try {
      const Ticket late = c.send(0, 8, comm::region_of(message(1, 0, 3, 1 << 16)));
      c.wait(late, {.deadline = Seconds{2}, .place = {}});
    } catch (const CommError&) {  // rank 0 may be gone altogether by now
    }
    return;
  }
  try {
    const Buffer<std::byte> room(4096);
    const Ticket other = c.receive(peer, 8, comm::region_of(Buffer<std::byte>(1 << 16)));
    const Ticket ticket = c.receive(peer, 7, comm::region_of(room));
    (void)other;
    c.wait(ticket,
           {.deadline = Seconds{0.05}, .place = {.round = 2, .rounds = 6, .plan_version = 17}});
  } catch (const CommError& e) {
    const comm::Failure& f = e.failure();
    check(f.rank == c.rank() && f.peer == peer && f.bytes.value == 4096 && f.receiving,
          "the failure names other things: {}", e.what());
    for (const char* part : {"round 2 of 6", "plan version 17", "4 KiB", "deadline 50 ms"}) {
      check(std::string(e.what()).find(part) != std::string::npos, "'{}' does not say '{}'",
            e.what(), part);
    }
    expect_dead(c, peer);
    return;
  }
  check(false, "a receive that nobody serves returned");
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"messages_of_one_tag_arrive_in_order", messages_of_one_tag_arrive_in_order},
      {"many_messages_may_be_in_flight", many_messages_may_be_in_flight},
      {"sizes_from_nothing_to_several_mebibytes", sizes_from_nothing_to_several_mebibytes},
      {"large_tags_are_told_apart", large_tags_are_told_apart},
      {"memory_without_an_owner_is_copied", memory_without_an_owner_is_copied},
      {"waiting_in_any_order_works", waiting_in_any_order_works},
      {"a_message_longer_than_its_room_is_told_and_the_next_one_arrives",
       a_message_longer_than_its_room_is_told_and_the_next_one_arrives, false, true},
      {"its_own_all_reduce_sums_if_it_has_one", its_own_all_reduce_sums_if_it_has_one},
      {"the_clock_does_not_go_back", the_clock_does_not_go_back},
      {"misuse_is_the_callers_error", misuse_is_the_callers_error},
      {"a_deadline_that_passes_is_an_error_that_names_everything",
       a_deadline_that_passes_is_an_error_that_names_everything, true},
  };
  return all;
}

void an_all_reduce_without_a_peer_is_an_error(Communicator& c) {
  if (!c.capabilities().own_all_reduce) return;
  std::vector<float> data(1 << 20, 1.0F);
  try {
    c.all_reduce(std::span(data), {.deadline = Seconds{2}, .place = {}});
  } catch (const CommError& e) {
    check(std::string(e.what()).find("all-reducing 4 MiB") != std::string::npos,
          "'{}' does not say what it was", e.what());
    return;
  }
  check(false, "an all-reduce ended without one of its ranks");
}

void a_peer_that_is_gone_is_an_error(Communicator& c, int gone) {
  const Patience short_patience{.deadline = Seconds{2},
                                .place = {.round = 1, .rounds = 3, .plan_version = 5}};
  try {
    // A message too large to be buffered away unseen.
    const Ticket out = c.send(gone, 3, comm::region_of(Buffer<std::byte>(std::size_t{8} << 20)));
    const Ticket in = c.receive(gone, 3, comm::region_of(Buffer<std::byte>(1 << 20)));
    (void)out;
    c.wait(in, short_patience);
  } catch (const CommError& e) {
    check(e.failure().peer == gone, "names peer {} instead of {}", e.failure().peer, gone);
    expect_dead(c, gone);
    return;
  }
  check(false, "a message came from a rank that is gone");
}

}  // namespace pliant::conformance
