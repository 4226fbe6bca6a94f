// SPDX-License-Identifier: MIT
#include "pliant/agree/handshake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "pliant/common/buffer.h"
#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/exchange/run_dense.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::agree {
namespace {

Facts parse(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto tab = line.find('\t');
    facts.emplace_back(line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1));
  }
  return facts;
}

// The first fact in which two ranks differ; a fact that only one of them has counts as absent in
// the other.
std::optional<std::string> difference(const Facts& one, const Facts& other, std::size_t rank_of_one,
                                      std::size_t rank_of_other) {
  const auto sentence = [&](const std::string& name, const std::string& a, const std::string& b) {
    return fmt::format("ranks disagree on {}: rank {} has {}, rank {} has {}", name, rank_of_one, a,
                       rank_of_other, b);
  };
  using Values = std::unordered_map<std::string, std::string>;
  const Values of_one(one.begin(), one.end());
  const Values of_other(other.begin(), other.end());
  const auto value = [](const Values& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional("'" + found->second + "'");
  };
  for (const Facts* facts : {&one, &other}) {
    for (const auto& [name, ignored] : *facts) {
      const auto a = value(of_one, name);
      const auto b = value(of_other, name);
      if (a != b) return sentence(name, a.value_or("none"), b.value_or("none"));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> gather_texts(comm::Communicator& communicator, const std::string& mine,
                                      std::optional<Seconds> deadline, Bytes& sent) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());

  // Lengths first: not every backend tells how long a message was.
  constexpr std::size_t kFloats = sizeof(std::uint64_t) / sizeof(float);
  const Buffer<float> lengths(kFloats * ranks);
  const auto length_of = [&](std::size_t r) {
    std::uint64_t length = 0;
    std::memcpy(&length, &lengths[kFloats * r], sizeof length);
    return static_cast<std::size_t>(length);
  };
  const std::uint64_t length = mine.size();
  std::memcpy(&lengths[kFloats * me], &length, sizeof length);
  exchange::Workspace workspace;
  const auto& bruck = schedule::find_builder(schedule::Collective::kAllGather, "bruck");
  sent += exchange::run_dense(communicator, bruck, {communicator.size()}, lengths, workspace,
                              {.deadline = deadline})
              .sent;

  std::vector<std::string> texts(ranks);
  std::vector<Buffer<std::byte>> rooms(ranks);
  std::vector<comm::Ticket> tickets;
  for (std::size_t r = 0; r < ranks; ++r) {
    rooms[r] = Buffer<std::byte>(length_of(r));
    if (r != me && length_of(r) > 0)
      tickets.push_back(communicator.receive(static_cast<int>(r), 1, comm::region_of(rooms[r])));
  }
  if (!mine.empty()) std::memcpy(rooms[me].data(), mine.data(), mine.size());
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me || mine.empty()) continue;
    tickets.push_back(communicator.send(static_cast<int>(r), 1, comm::region_of(rooms[me])));
    sent += Bytes{static_cast<std::int64_t>(mine.size())};
  }
  for (const auto ticket : tickets) communicator.wait(ticket, {.deadline = deadline, .place = {}});
  for (std::size_t r = 0; r < ranks; ++r) {
    texts[r].assign(reinterpret_cast<const char*>(rooms[r].data()), rooms[r].size());
  }
  return texts;
}

void go_on_unless(comm::Communicator& communicator, const std::string& objection,
                  std::optional<Seconds> deadline) {
  Bytes sent;
  const auto objections = gather_texts(communicator, objection, deadline, sent);
  const auto first =
      std::ranges::find_if(objections, [](const std::string& text) { return !text.empty(); });
  if (first != objections.end())
    throw IoError(fmt::format("rank {}: {}", first - objections.begin(), *first));
}

void agree(comm::Communicator& communicator, const Facts& mine, std::optional<Seconds> deadline,
           std::uint16_t part) {
  std::string text;
  for (const auto& [name, value] : mine) text += fmt::format("{}\t{}\n", name, value);
  Bytes sent;
  // The facts of a model with many tensors are long, and nearly always alike: hashes go first.
  const auto hashes = gather_texts(
      communicator, fmt::format("{:04x}{:016x}", part, pliant::hash(std::string_view(text))),
      deadline, sent);
  std::map<std::string, std::size_t> first;  // rank of each part
  std::vector<std::size_t> compared;         // by rank, the rank that it must be like
  for (std::size_t r = 0; r < hashes.size(); ++r)
    compared.push_back(first.try_emplace(hashes[r].substr(0, 4), r).first->second);
  const auto is_like = [&](const std::string& hash, std::size_t r) { return hash == hashes[r]; };
  if (std::ranges::equal(hashes, compared, is_like)) return;
  const auto texts = gather_texts(communicator, text, deadline, sent);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    const std::size_t like = compared[r];
    if (texts[r] == texts[like]) continue;
    if (const auto why = difference(parse(texts[like]), parse(texts[r]), like, r))
      throw Disagreement(*why);
  }
}

std::vector<std::size_t> largest(comm::Communicator& communicator,
                                 const std::vector<std::size_t>& mine,
                                 std::optional<Seconds> deadline) {
  Bytes sent;
  std::vector<std::size_t> most(mine.size());
  for (const std::string& text :
       gather_texts(communicator, fmt::format("{}", fmt::join(mine, " ")), deadline, sent)) {
    std::istringstream numbers(text);
    for (std::size_t& number : most) {
      std::size_t theirs = 0;
      numbers >> theirs;
      number = std::max(number, theirs);
    }
  }
  return most;
}

plan::CostTable slowest_costs(comm::Communicator& communicator, const plan::CostTable& mine,
                              std::optional<Seconds> deadline) {
  plan::CostTable slowest;
  Bytes sent;
  for (const std::string& text : gather_texts(communicator, plan::to_text(mine), deadline, sent)) {
    const plan::CostTable table = plan::parse_cost_table(text);
    for (std::size_t o = 0; o < plan::kOperationNames.size(); ++o) {
      const auto operation = static_cast<plan::Operation>(o);
      const auto cost = table.find(operation);
      if (!cost) continue;
      const plan::Cost known = slowest.find(operation).value_or(plan::Cost{});
      slowest.set(operation,
                  {.ns_per_element = std::max(known.ns_per_element, cost->ns_per_element),
                   .ns_per_entry = std::max(known.ns_per_entry, cost->ns_per_entry)});
    }
  }
  return slowest;
}

}  // namespace pliant::agree
