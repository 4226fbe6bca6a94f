// SPDX-License-Identifier: MIT
#include "pliant/plan/pins.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "pliant/plan/density.h"

namespace pliant::plan {
namespace {

// ---- Keys: how key=value is read into a pin and written from one ----

struct Key {
  std::string_view name;
  std::vector<std::string> allowed;  // the words, or one sample of a number
  bool is_number;
  bool (*pinned)(const Pins&);
  bool (*set)(Pins&,
              std::string_view
                  value);  // false: not one of `allowed`; throws InputError with a better reason
  std::string (*print)(const Pins&);
};

template <typename Values>
std::vector<std::string> names(const Values& values) {
  std::vector<std::string> out;
  out.reserve(values.size());
  for (const auto value : values) out.emplace_back(to_string(value));
  return out;
}

template <auto kMember, const auto& kValues>
Key choice(std::string_view name) {
  return {.name = name,
          .allowed = names(kValues),
          .is_number = false,
          .pinned = [](const Pins& pins) { return (pins.*kMember).has_value(); },
          .set =
              [](Pins& pins, std::string_view text) {
                const auto found = std::ranges::find_if(
                    kValues, [&](auto value) { return to_string(value) == text; });
                if (found == kValues.end()) return false;
                pins.*kMember = *found;
                return true;
              },
          .print = [](const Pins& pins) { return std::string(to_string(*(pins.*kMember))); }};
}

template <auto kMember, int kLow, int kHigh>
Key number(std::string_view name) {
  return {.name = name,
          .allowed = {fmt::format("a whole number from {} to {}", kLow, kHigh)},
          .is_number = true,
          .pinned = [](const Pins& pins) { return (pins.*kMember).has_value(); },
          .set =
              [](Pins& pins, std::string_view text) {
                int value = 0;
                const auto [end, status] =
                    std::from_chars(text.data(), text.data() + text.size(), value);
                if (status != std::errc{} || end != text.data() + text.size() || value < kLow ||
                    value > kHigh)
                  return false;
                pins.*kMember = value;
                return true;
              },
          .print = [](const Pins& pins) { return std::to_string(*(pins.*kMember)); }};
}

Key density_key() {
  return {.name = "density",
          .allowed = {fmt::format("a percentage from {} to 100%", density_text(kMinDensity))},
          .is_number = true,
          .pinned = [](const Pins& pins) { return pins.density.has_value(); },
          .set = [](Pins& pins,
                    std::string_view text) { return pins.density = parse_density(text), true; },
          .print = [](const Pins& pins) { return density_text(*pins.density); }};
}

// In the order in which they are written. The first kBeforeScheme stand between kind and scheme.
constexpr std::size_t kBeforeScheme = 2;
const std::vector<Key>& keys() {
  static const std::vector<Key> all = {
      number<&Pins::every, 1, kMaxEvery>("every"),
      number<&Pins::late, 0, kMaxLate>("late"),
      choice<&Pins::scatter, kReduceScatters>("scatter"),
      choice<&Pins::gather, kAllGathers>("gather"),
      choice<&Pins::bcast, kBroadcasts>("bcast"),
      number<&Pins::segments, 1, kMaxSegments>("segments"),
      choice<&Pins::reduce, kAllReduces>("reduce"),
      density_key(),
      choice<&Pins::values, kValueCodes>("values"),
      choice<&Pins::indices, kIndexCodes>("indices"),
      choice<&Pins::fuse, kFusions>("fuse"),
  };
  return all;
}

// Values with another name in earlier versions. Saved plans and logs have the former name: it is
// read, and never written.
struct Renamed {
  std::string_view key, former, now;
};
constexpr std::array kRenamed = {Renamed{"reduce", "engine", "backend"}};

std::string_view todays_name(std::string_view key, std::string_view value) {
  for (const Renamed& each : kRenamed) {
    if (each.key == key && each.former == value) return each.now;
  }
  return value;
}

std::vector<std::string> key_names() {
  std::vector<std::string> out;
  for (const Key& key : keys()) out.push_back(std::string(key.name) + "=");
  return out;
}

std::vector<std::string> bare_words() {
  std::vector<std::string> out = names(kKinds);
  for (const Scheme scheme : kSchemes) {
    out.emplace_back(to_string(scheme));
    if (scheme != Scheme::kShared) continue;
    for (const Leader leader : kLeaders) out.push_back(fmt::format("shared/{}", to_string(leader)));
  }
  return out;
}

// ---- Contradictions: what each pin claims of kind and scheme, and what is left when all claims
// are heard ----

template <typename Word>
struct Claim {
  bool made;
  std::vector<Word> allowed;
  std::string_view why;
};

template <typename Word>
bool admits(const Claim<Word>& claim, Word word) {
  return !claim.made || std::ranges::find(claim.allowed, word) != claim.allowed.end();
}

// Nothing if some word satisfies every claim (the pinned word, if there is one).
template <typename Word, typename Words>
std::optional<std::string> unsatisfied(const std::vector<Claim<Word>>& claims,
                                       std::optional<Word> pinned, const Words& words,
                                       std::string_view noun) {
  if (pinned) {
    const auto broken =
        std::ranges::find_if(claims, [&](const auto& claim) { return !admits(claim, *pinned); });
    if (broken == claims.end()) return std::nullopt;
    return fmt::format("{}; it cannot go with {}", broken->why, to_string(*pinned));
  }
  const auto fits_all = [&](Word word) {
    return std::ranges::all_of(claims, [&](const auto& claim) { return admits(claim, word); });
  };
  if (std::ranges::any_of(words, fits_all)) return std::nullopt;
  std::vector<std::string_view> whys;
  for (const auto& claim : claims) {
    if (claim.made) whys.push_back(claim.why);
  }
  return fmt::format("no {} is left: {}", noun, fmt::join(whys, "; "));
}

std::vector<Claim<Kind>> claims_on_kind(const Pins& pins) {
  return {
      {pins.every.has_value(),
       {Kind::kUpdates},
       "every= is for updates: gradients are exchanged every step"},
      {pins.late.has_value(),
       {Kind::kUpdates},
       "late= is for updates: the optimizer waits for averaged gradients"},
      {pins.fuse.has_value(),
       {Kind::kGradients},
       "fuse= is for gradients: updates are one exchange of the whole model"},
  };
}

std::vector<Claim<Scheme>> claims_on_scheme(const Pins& pins) {
  using enum Scheme;
  return {
      {pins.leader.has_value(), {kShared}, "a leader is for shared"},
      {pins.late > 0,
       {kDense, kUnion, kSrs},
       "late= above 0 is for dense, union and srs: in shared a follower learns its indices one "
       "broadcast later"},
      {pins.scatter.has_value(), {kSrs}, "scatter= is for srs"},
      {pins.gather.has_value(), {kUnion, kSrs}, "gather= is for union and srs"},
      {pins.bcast.has_value(), {kShared}, "bcast= is for shared"},
      {pins.segments.has_value(), {kShared}, "segments= is for the broadcast of shared"},
      {pins.reduce == AllReduce::kBackend,
       {kDense},
       "reduce=backend is for dense: the backend's own all-reduce takes whole buckets"},
      {pins.reduce.has_value(), {kDense, kShared}, "reduce= is for dense and shared"},
      {pins.density < 1.0 && pins.density.has_value(),
       {kUnion, kShared, kSrs},
       "density= below 100% is for union, shared and srs: dense sends every entry"},
      {pins.indices.has_value(),
       {kUnion, kShared, kSrs},
       "indices= is for union, shared and srs: dense sends none"},
  };
}

// ---- Words with their places, for errors that point ----

struct Word {
  std::string_view text;
  std::size_t at;
};

std::vector<Word> split(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<Word> words;
  std::size_t at = text.find_first_not_of(kSpace);
  while (at != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back({text.substr(at, end - at), at});
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

// " (did you mean 'ring'?)", or nothing.
std::string guess(std::string_view typed, std::span<const std::string> allowed) {
  const auto near = nearest_word(typed, allowed);
  return near ? fmt::format(" (did you mean '{}'?)", *near) : "";
}

std::string hint(std::string_view typed, std::span<const std::string> allowed) {
  return fmt::format("{}; allowed: {}", guess(typed, allowed), fmt::join(allowed, ", "));
}

// What people choose; schedules and codes follow from the network unless somebody pins them.
constexpr std::string_view kUsualWords =
    "gradients or updates; dense, union, shared or srs; density=1%, every=4, late=1, values=int8. "
    "docs/plans.md has all of them";

// A value without its key ("ring", "1%"): the keys it may belong to, written out.
std::vector<std::string> with_keys(std::string_view value) {
  std::vector<std::string> out;
  for (const Key& key : keys()) {
    if (std::ranges::find(key.allowed, value) != key.allowed.end())
      out.push_back(fmt::format("{}={}", key.name, value));
  }
  if (value.size() > 1 && value.ends_with('%')) out.push_back(fmt::format("density={}", value));
  for (const Leader leader : kLeaders) {
    if (to_string(leader) == value) out.push_back(fmt::format("shared/{}", value));
  }
  return out;
}

std::string unknown_word(std::string_view word) {
  if (word == "auto") return "'auto' leaves everything open and stands alone";
  if (word == "%") return "a percentage has no space in a plan, as in density=1%";
  if (const auto meant = with_keys(word); !meant.empty())
    return fmt::format("'{}' needs its key: {}", word, fmt::join(meant, " or "));
  const auto key = std::ranges::find(keys(), word, &Key::name);
  if (key != keys().end())
    return fmt::format("'{0}' needs a value: {0}={1}", word, fmt::join(key->allowed, "|"));
  std::vector<std::string> allowed = bare_words();
  std::ranges::move(key_names(), std::back_inserter(allowed));
  return fmt::format("unknown word '{}'{}; a plan is 'auto' or some of: {}", word,
                     guess(word, allowed), kUsualWords);
}

// A pin set twice is an error even if both say the same: one of them is not what was meant.
template <typename T>
std::string pin_once(std::optional<T>& pin, T value, std::string_view noun) {
  if (pin) return fmt::format("a second {}; it is {} already", noun, to_string(*pin));
  pin = value;
  return "";
}

// Each of the three returns what is wrong with the word, or "".
std::string take_key(Pins& pins, std::string_view name, std::string_view value) {
  const auto key = std::ranges::find(keys(), name, &Key::name);
  if (key == keys().end())
    return fmt::format("unknown key '{}='{}; the usual words: {}", name,
                       guess(std::string(name) + "=", key_names()), kUsualWords);
  if (key->pinned(pins))
    return fmt::format("a second {0}=; it is {0}={1} already", name, key->print(pins));
  try {
    if (key->set(pins, todays_name(name, value))) return "";
  } catch (const InputError& error) {
    return fmt::format("{}={}: {}", name, value, error.what());
  }
  if (key->is_number)
    return fmt::format("{}= takes {}, not '{}'", name, key->allowed.front(), value);
  return fmt::format("{}= does not know '{}'{}", name, value, hint(value, key->allowed));
}

std::string take_scheme(Pins& pins, std::string_view name,
                        std::optional<std::string_view> leader_name) {
  const auto scheme =
      std::ranges::find_if(kSchemes, [&](Scheme s) { return to_string(s) == name; });
  if (scheme == kSchemes.end()) {
    return unknown_word(leader_name ? fmt::format("{}/{}", name, *leader_name) : std::string(name));
  }
  if (std::string why = pin_once(pins.scheme, *scheme, "scheme"); !why.empty() || !leader_name)
    return why;
  if (*scheme != Scheme::kShared)
    return fmt::format("{} has no leader; only shared/star and shared/var do", name);
  const auto leader =
      std::ranges::find_if(kLeaders, [&](Leader l) { return to_string(l) == *leader_name; });
  if (leader == kLeaders.end())
    return fmt::format("shared does not know the leader '{}'{}", *leader_name,
                       hint(*leader_name, names(kLeaders)));
  return pin_once(pins.leader, *leader, "leader");
}

std::string take_word(Pins& pins, std::string_view word) {
  if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
    return take_key(pins, word.substr(0, equals), word.substr(equals + 1));
  }
  const auto kind = std::ranges::find_if(kKinds, [&](Kind k) { return to_string(k) == word; });
  if (kind != kKinds.end()) return pin_once(pins.kind, *kind, "kind");
  if (const std::size_t slash = word.find('/'); slash != std::string_view::npos) {
    return take_scheme(pins, word.substr(0, slash), word.substr(slash + 1));
  }
  return take_scheme(pins, word, std::nullopt);
}

std::size_t columns(std::string_view text) {  // UTF-8 characters
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

void fail_at(std::string_view what, std::string_view text, std::size_t at, std::size_t length,
             std::string_view why) {
  std::string shown(text);
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  const std::size_t tail = std::max<std::size_t>(columns(text.substr(at, length)), 1) - 1;
  throw InputError(fmt::format("{}: {}\n  {}\n  {}^{}", what, why, shown,
                               std::string(columns(text.substr(0, at)), ' '),
                               std::string(tail, '~')));
}

// Word by word, so that the first word that cannot be, by itself or with those before it, is the
// one pointed at.
Pins parse_pins(std::string_view text, std::string_view what) {
  const std::vector<Word> words = split(text);
  if (words.empty()) fail_at(what, text, 0, 0, "empty; write 'auto' to leave everything open");
  Pins pins;
  if (words.size() == 1 && words.front().text == "auto") return pins;
  for (const Word& word : words) {
    std::string why = take_word(pins, word.text);
    if (why.empty()) why = contradiction(pins).value_or("");
    if (!why.empty()) fail_at(what, text, word.at, word.text.size(), why);
  }
  return pins;
}

std::string to_string(const Pins& pins) {
  std::vector<std::string> words;
  const auto print = [&](std::span<const Key> some) {
    for (const Key& key : some) {
      if (key.pinned(pins)) words.push_back(fmt::format("{}={}", key.name, key.print(pins)));
    }
  };
  const std::span<const Key> all = keys();
  if (pins.kind) words.emplace_back(to_string(*pins.kind));
  print(all.first(kBeforeScheme));
  if (pins.leader) {
    words.push_back(fmt::format("shared/{}", to_string(*pins.leader)));
  } else if (pins.scheme) {
    words.emplace_back(to_string(*pins.scheme));
  }
  print(all.subspan(kBeforeScheme));
  return words.empty() ? "auto" : fmt::format("{}", fmt::join(words, " "));
}

std::optional<std::string> contradiction(const Pins& pins) {
  if (auto why = unsatisfied(claims_on_kind(pins), pins.kind, kKinds, "kind")) return why;
  if (auto why = unsatisfied(claims_on_scheme(pins), pins.scheme, kSchemes, "scheme")) return why;
  const bool lossy = pins.values && pins.values != ValueCode::kF32;
  if (lossy && pins.reduce == AllReduce::kRecursiveDoubling) {
    return fmt::format(
        "reduce=recursive-doubling takes values=f32 only, not {}: both partners would keep the "
        "same rounding error",
        to_string(*pins.values));
  }
  if (lossy && pins.reduce == AllReduce::kBackend) {
    return fmt::format(
        "reduce=backend takes values=f32 only, not {}: the backend's own all-reduce knows no codes",
        to_string(*pins.values));
  }
  if (pins.late > kMaxLateOfAny && pins.every && *pins.every < *pins.late) {
    return fmt::format("late= above {} needs every= at least as large: late={} needs every={}",
                       kMaxLateOfAny, *pins.late, *pins.late);
  }
  if (pins.segments && pins.bcast && !is_segmented(*pins.bcast)) {
    return fmt::format("segments= is for bcast=chain and bcast=double-tree; {} is not cut",
                       to_string(*pins.bcast));
  }
  return std::nullopt;
}

}  // namespace pliant::plan
