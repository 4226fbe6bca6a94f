// SPDX-License-Identifier: MIT
#include "pliant/schedule/broadcast.h"

#include <algorithm>

#include "pliant/schedule/all_gather.h"

namespace pliant::schedule {
namespace {

// Ranks are renumbered so that the root is 0; real() turns a number back into a rank.
struct FromRoot {
  int size;
  int root;
  [[nodiscard]] int number(int rank) const { return (rank + size - root) % size; }
  [[nodiscard]] int real(int number) const { return (number + root) % size; }
};

// One edge of a broadcast tree.
struct Edge {
  int parent;
  int child;
  int tree;        // 0 or 1
  int color = -1;  // used in rounds of this parity
  int start = 0;   // the round in which its first segment passes
};

// The in-order binary tree on numbers 1..count: a number's height is its count of trailing zero
// bits. Odd numbers are leaves. Where a right child would lie beyond count, its left descendants
// are tried instead.
int tree_root(int count) {
  int top = 1;
  while (2 * top <= count) top *= 2;
  return top;
}

void tree_edges(int node, int count, int tree, std::vector<Edge>& edges) {
  const int half = (node & -node) / 2;
  if (half == 0) return;
  edges.push_back({node, node - half, tree});
  tree_edges(node - half, count, tree, edges);
  int right = node + half;
  for (int step = half; right > count && step > 1; right -= step) step /= 2;
  if (right > count) return;
  edges.push_back({node, right, tree});
  tree_edges(right, count, tree, edges);
}

// Two trees over the ranks 1..N-1, fed by the root 0, such that nobody has children in both. The
// second tree renames the first one's numbers so that even (inner) and odd (leaf) change places:
// mirrored if N-1 is even, shifted by one if odd.
std::vector<Edge> two_trees(int size) {
  const int count = size - 1;
  std::vector<Edge> edges;
  for (int tree = 0; tree < 2; ++tree) {
    edges.push_back({0, tree_root(count), tree});
    tree_edges(tree_root(count), count, tree, edges);
  }
  const auto renamed = [count](int number) {
    return number == 0 ? 0 : count % 2 == 0 ? count + 1 - number : number % count + 1;
  };
  for (Edge& edge : edges) {
    if (edge.tree == 1) edge = {renamed(edge.parent), renamed(edge.child), 1};
  }
  return edges;
}

// Every rank receives on two edges (one per tree) and sends on at most two. Colour the edges with
// two colours so that neither the two incoming nor the two outgoing ones of a rank share a colour:
// then in rounds of one parity everyone sends and receives at most once. Edges that meet form paths
// and even cycles, so walking them and alternating succeeds.
void color(std::vector<Edge>& edges, int size) {
  std::vector<std::vector<Edge*>> leaving(static_cast<std::size_t>(size));
  std::vector<std::vector<Edge*>> entering(static_cast<std::size_t>(size));
  for (Edge& edge : edges) {
    leaving[static_cast<std::size_t>(edge.parent)].push_back(&edge);
    entering[static_cast<std::size_t>(edge.child)].push_back(&edge);
  }
  const auto uncolored_neighbour = [&](const Edge& edge) -> Edge* {
    for (const auto* meeting : {&leaving[static_cast<std::size_t>(edge.parent)],
                                &entering[static_cast<std::size_t>(edge.child)]}) {
      for (Edge* other : *meeting) {
        if (other->color < 0) return other;
      }
    }
    return nullptr;
  };
  for (Edge& first : edges) {
    if (first.color >= 0) continue;
    first.color = 0;
    for (int end = 0; end < 2; ++end) {  // a path may extend from both ends of its first edge
      Edge* here = &first;
      while (Edge* next = uncolored_neighbour(*here)) {
        next->color = 1 - here->color;
        here = next;
      }
    }
  }
}

// An edge starts in the first round of its parity after its parent has received the tree's first
// segment. `edges` lists parents before children, tree by tree.
void set_starts(std::vector<Edge>& edges, int size) {
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<int> received(static_cast<std::size_t>(size), -1);
    for (Edge& edge : edges) {
      if (edge.tree != tree) continue;
      const int earliest = received[static_cast<std::size_t>(edge.parent)] + 1;
      edge.start = earliest + ((earliest + edge.color) % 2);
      received[static_cast<std::size_t>(edge.child)] = edge.start;
    }
  }
}

}  // namespace

// The binomial tree: in round i, the 2^i ranks that have the block send it to the rank 2^i further
// on.
Schedule binomial_broadcast(int rank, int size, int root) {
  check_broadcast(rank, size, root, 1);
  const FromRoot from_root{size, root};
  const int self = from_root.number(rank);
  Schedule rounds;
  for (int have = 1; have < size; have *= 2) {
    Round round;
    if (self < have && self + have < size) round.sends = {{from_root.real(self + have), {0}}};
    if (self >= have && self < 2 * have) round.receives = {{from_root.real(self - have), {0}}};
    rounds.push_back(round);
  }
  return rounds;
}

// The chain: rank number v passes segment s on in round v + s.
Schedule chain_broadcast(int rank, int size, int root, int segments) {
  check_broadcast(rank, size, root, segments);
  if (size == 1) return {};
  const FromRoot from_root{size, root};
  const int self = from_root.number(rank);
  Schedule rounds(static_cast<std::size_t>(size - 2 + segments));
  for (int s = 0; s < segments; ++s) {
    if (self + 1 < size)
      rounds[static_cast<std::size_t>(self + s)].sends = {{from_root.real(self + 1), {s}}};
    if (self > 0)
      rounds[static_cast<std::size_t>(self - 1 + s)].receives = {{from_root.real(self - 1), {s}}};
  }
  return rounds;
}

// Two trees, each carrying every other segment, so that a rank that is a leaf of one and only
// receives there spends its sending half on the other. An edge passes a segment every second round
// (its colour), from its start on.
Schedule double_tree_broadcast(int rank, int size, int root, int segments) {
  check_broadcast(rank, size, root, segments);
  if (size == 1) return {};
  const FromRoot from_root{size, root};
  const int self = from_root.number(rank);
  std::vector<Edge> edges = two_trees(size);
  color(edges, size);
  set_starts(edges, size);

  int rounds_needed = 0;
  for (const Edge& edge : edges) {
    const int carried = (segments + 1 - edge.tree) / 2;
    if (carried > 0) rounds_needed = std::max(rounds_needed, edge.start + 2 * carried - 1);
  }
  Schedule rounds(static_cast<std::size_t>(rounds_needed));
  for (const Edge& edge : edges) {
    for (int segment = edge.tree, round = edge.start; segment < segments;
         segment += 2, round += 2) {
      if (edge.parent == self)
        rounds[static_cast<std::size_t>(round)].sends = {{from_root.real(edge.child), {segment}}};
      if (edge.child == self)
        rounds[static_cast<std::size_t>(round)].receives = {
            {from_root.real(edge.parent), {segment}}};
    }
  }
  return rounds;
}

// Scatter: whoever holds a run of blocks hands the upper half of it to the rank it begins with. The
// run of rank number v is [v, v + span); after the last round everyone holds block v, and an
// all-gather spreads the rest.
Schedule scatter_all_gather_broadcast(int rank, int size, int root) {
  check_broadcast(rank, size, root, 1);
  const FromRoot from_root{size, root};
  const int self = from_root.number(rank);
  const auto run = [&](int first, int span) {
    std::vector<int> blocks;
    for (int v = first; v < std::min(first + span, size); ++v) blocks.push_back(from_root.real(v));
    return blocks;
  };
  Schedule rounds;
  for (int span = (1 << ceil_log2(size)) / 2; span >= 1; span /= 2) {
    Round round;
    if (self % (2 * span) == 0 && self + span < size)
      round.sends = {{from_root.real(self + span), run(self + span, span)}};
    if (self % (2 * span) == span)
      round.receives = {{from_root.real(self - span), run(self, span)}};
    rounds.push_back(round);
  }
  return concatenate(rounds, doubling_all_gather(rank, size));
}

}  // namespace pliant::schedule
