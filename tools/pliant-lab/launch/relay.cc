// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/launch/relay.h"

#include <unistd.h>

#include <array>
#include <regex>

namespace pliant::lab {

Fd Relay::add(int to, Rewrite rewrite) {
  Pipe pipe = make_pipe();
  set_nonblocking(pipe.read.get());
  streams_.push_back({std::move(pipe.read), to, std::move(rewrite), {}});
  return std::move(pipe.write);
}

void Relay::add_to(std::vector<pollfd>& waiting) const {
  for (const Stream& stream : streams_) {
    if (stream.from.open()) waiting.push_back({stream.from.get(), POLLIN, 0});
  }
}

void Relay::pump() {
  for (Stream& stream : streams_) pump(stream);
}

void Relay::pump(Stream& stream) {
  std::array<char, 65536> buffer;
  while (stream.from.open()) {
    const ssize_t size = read(stream.from.get(), buffer.data(), buffer.size());
    if (size < 0) return;
    if (size > 0) {
      emit(stream, std::string_view(buffer.data(), static_cast<std::size_t>(size)));
      continue;
    }
    if (!stream.partial.empty()) emit(stream, "\n");
    stream.from.close();
  }
}

void Relay::emit(Stream& stream, std::string_view text) {
  stream.partial += text;
  std::string lines;
  std::size_t start = 0;
  for (auto end = stream.partial.find('\n'); end != std::string::npos;
       end = stream.partial.find('\n', start)) {
    lines += stream.rewrite(stream.partial.substr(start, end - start)) + "\n";
    start = end + 1;
  }
  stream.partial.erase(0, start);
  write_all(stream.to, lines, "writing a host's output");
}

void Relay::drain() {
  std::vector<pollfd> waiting;
  for (add_to(waiting); !waiting.empty(); add_to(waiting)) {
    poll(waiting.data(), waiting.size(), 1000);
    pump();
    waiting.clear();
  }
}

Relay::Rewrite prefix_with(const std::string& prefix) {
  return [prefix](const std::string& line) { return prefix + line; };
}

std::string rewrite_mpi_tag(const std::string& line) {
  static const std::regex tag(R"(^\[\d+,(\d+)\]<std(out|err)>:)");
  return std::regex_replace(line, tag, "[host $1] ");
}

}  // namespace pliant::lab
