// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/switch/emulation.h"

#include <algorithm>
#include <fstream>

#include "tools/pliant-lab/host/tun.h"

namespace pliant::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr Time kSecond = std::chrono::seconds(1);

void apply_all(const std::vector<HostChange>& changes, std::vector<Link>& links) {
  for (const HostChange& c : changes) {
    for (std::size_t host = 0; host < links.size(); ++host) {
      if (!c.host || *c.host == static_cast<int>(host)) apply(c.change, links[host]);
    }
  }
}

std::vector<HostChange> changes_for_all(const std::vector<HostChange>& changes) {
  std::vector<HostChange> some;
  std::ranges::copy_if(changes, std::back_inserter(some),
                       [](const HostChange& c) { return !c.host; });
  return some;
}

std::vector<HostChange> changes_for_one(const std::vector<HostChange>& changes) {
  std::vector<HostChange> some;
  std::ranges::copy_if(changes, std::back_inserter(some),
                       [](const HostChange& c) { return c.host.has_value(); });
  return some;
}

}  // namespace

// The general before the particular: --link, then the timeline's start, then --host.
std::vector<Link> NetworkPlan::links() const {
  std::vector<Link> all(static_cast<std::size_t>(hosts));
  apply_all(changes_for_all(changes), all);
  apply_all(timeline.start, all);
  apply_all(changes_for_one(changes), all);
  return all;
}

Emulation::Emulation(NetworkPlan plan, Truth truth, Network::Deliver deliver)
    : plan_(std::move(plan)),
      network_(plan_.hosts + plan_.unshaped_hosts, plan_.seed, std::move(deliver)),
      truth_(std::move(truth)) {
  sent_before_.resize(static_cast<std::size_t>(plan_.hosts));
  received_before_.resize(static_cast<std::size_t>(plan_.hosts));
}

void Emulation::start(Time now) {
  started_ = second_start_ = now;
  usage_before_ = usage();
  truth_.write("header", now,
               {{"format", "pliant-lab-truth"},
                {"version", 1},
                {"hosts", plan_.hosts},
                {"mtu", plan_.mtu},
                {"seed", plan_.seed},
                {"timeline", plan_.timeline.name}});
  DelayMatrix delays = plan_.timeline.delays(plan_.hosts);
  for (auto& row : delays) row.resize(static_cast<std::size_t>(network_.hosts()));
  if (!delays.empty())
    delays.resize(static_cast<std::size_t>(network_.hosts()),
                  std::vector<Seconds>(static_cast<std::size_t>(network_.hosts())));
  network_.set_delays(std::move(delays));
  const auto links = plan_.links();
  for (int host = 0; host < plan_.hosts; ++host) {
    network_.set_link(host, links[static_cast<std::size_t>(host)], now);
    truth_.write("link", now,
                 Json{{"host", host},
                      {"cause", "start"},
                      {"phase", nullptr},
                      {"link", to_json(network_.link(host))}});
  }
  player_ = std::make_unique<Player>(plan_.timeline, now, plan_.by_name_only);
}

Time Emulation::next_event() const {
  const Time second = truth_.on() ? second_start_ + kSecond : kNever;
  return std::min({network_.next_event(), player_->next(), second});
}

// A phase that is due comes between the packets before it and those after it, however late we are.
void Emulation::advance(Time now) {
  while (player_->next() <= now) {
    const Time at = player_->next();
    network_.advance(at);
    enter(player_->take(), "timeline", at);
  }
  network_.advance(now);
  if (truth_.on() && now >= second_start_ + kSecond) log_second(now);
}

void Emulation::enter(const Phase& phase, const std::string& cause, Time now) {
  phase_ = phase.name;
  truth_.write("phase", now, Json{{"phase", phase.name}, {"cause", cause}});
  for (const HostChange& c : phase.changes) change(c.host, c.change, cause, now);
}

void Emulation::change(std::optional<int> host, const LinkChange& change, const std::string& cause,
                       Time now) {
  for (int h = host.value_or(0); h < (host ? *host + 1 : plan_.hosts); ++h) {
    Link link = network_.link(h);
    apply(change, link);
    network_.set_link(h, link, now);
    truth_.write("link", now,
                 Json{{"host", h},
                      {"cause", cause},
                      {"phase", phase_.empty() ? Json() : Json(phase_)},
                      {"link", to_json(link)}});
  }
}

void Emulation::trigger(const std::string& phase, Time now) {
  enter(plan_.timeline.phase(phase), "phase", now);
}

Json Emulation::status(Time now) const {
  Json hosts = Json::array();
  for (int host = 0; host < plan_.hosts; ++host) {
    const Link& link = network_.link(host);
    hosts.push_back({{"host", host},
                     {"address", host_address(host)},
                     {"summary", to_string(link)},
                     {"link", to_json(link)},
                     {"sent", to_json(network_.sent(host), {})},
                     {"received", to_json(network_.received(host), {})}});
  }
  Lateness late = total_lateness_;
  late.add(lateness_);
  return {{"elapsed_s", to_seconds(now - started_).value},
          {"mtu", plan_.mtu},
          {"seed", plan_.seed},
          {"timeline", plan_.timeline.name},
          {"phases", plan_.timeline.phase_names()},
          {"phase", phase_},
          {"hosts", hosts},
          {"switch", to_json(late)}};
}

// The kernel's own account: time on the processor and time waiting for one.
Emulation::Usage Emulation::usage() {
  std::ifstream file("/proc/self/schedstat");
  Usage read;
  file >> read.cpu >> read.waited;
  return {read.cpu * 1e-9, read.waited * 1e-9};
}

void Emulation::log_second(Time now) {
  const double interval = to_seconds(now - second_start_).value;
  for (int host = 0; host < plan_.hosts; ++host) log_host(host, now, interval);
  const Usage usage_now = usage();
  Json record = {{"interval_s", interval}};
  record.update(to_json(lateness_));
  record.update({{"cpu_s", usage_now.cpu - usage_before_.cpu},
                 {"waited_for_cpu_s", usage_now.waited - usage_before_.waited}});
  truth_.write("switch", now, record);
  usage_before_ = usage_now;
  total_lateness_.add(lateness_);
  lateness_ = {};
  network_.reset_longest_waits();
  second_start_ = now;
}

void Emulation::log_host(int host, Time now, double interval) {
  const auto i = static_cast<std::size_t>(host);
  truth_.write("second", now,
               Json{{"host", host},
                    {"interval_s", interval},
                    {"out", to_json(network_.sent(host), sent_before_[i])},
                    {"in", to_json(network_.received(host), received_before_[i])}});
  sent_before_[i] = network_.sent(host);
  received_before_[i] = network_.received(host);
}

void Emulation::finish(Time now) {
  log_second(now);
  truth_.write("end", now, to_json(total_lateness_));
}

}  // namespace pliant::lab
