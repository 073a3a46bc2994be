/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A cycle through all nodes of a graph, searched for: a cover by cycles first (every node names a neighbour as its next,
 * no two the same: a matching), then cycles are joined. Where a -> b is of one cycle, e -> d of another, and a is
 * joined to d and e to b, the arcs a -> d and e -> b make one cycle of both. Where no two can be joined any more, the
 * same exchange within a cycle parts it elsewhere, and joining goes on; what ends with more cycles is taken back.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { EFFORT = 20, DRAWS = 1000 };    /* looks at each edge while matching; draws for an exchange */

struct cover {
    uint32_t nodes;
    const uint32_t *first, *near;      /* near[first[n] .. first[n + 1]), ascending: the neighbours of n */
    uint32_t *next, *before;
    uint32_t *of, *size;               /* cycles as disjoint sets: parents, and at each root the number of nodes */
    uint32_t *kept_next, *kept_before;
    uint64_t random;
};

static uint64_t draw(struct cover *c)
{
    c->random ^= c->random << 13; c->random ^= c->random >> 7; c->random ^= c->random << 17;
    return c->random;
}

static bool joined(const struct cover *c, uint32_t a, uint32_t b)
{
    uint32_t low = c->first[a], high = c->first[a + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->near[middle] < b) low = middle + 1; else high = middle;
    }
    return low < c->first[a + 1] && c->near[low] == b;
}

static uint32_t root(const struct cover *c, uint32_t n)
{
    while (c->of[n] != n) n = c->of[n] = c->of[c->of[n]];
    return n;
}

static void arc(struct cover *c, uint32_t from, uint32_t to) { c->next[from] = to; c->before[to] = from; }

/* Match every node with its next, the first free neighbour, by augmenting paths where none is left. */
static bool match(struct cover *c)
{
    const uint32_t none = c->nodes;
    uint32_t *seen = c->of, *path = c->kept_next, *at = c->kept_before;
    for (uint32_t n = 0; n < c->nodes; n++) c->next[n] = c->before[n] = seen[n] = none;
    for (uint32_t n = 0; n < c->nodes; n++)
        for (uint32_t i = c->first[n]; i < c->first[n + 1] && c->next[n] == none; i++)
            if (c->before[c->near[i]] == none) arc(c, n, c->near[i]);
    uint64_t looks = (uint64_t)EFFORT * c->first[c->nodes];
    for (uint32_t start = 0; start < c->nodes; start++) {
        uint32_t depth = 0;
        path[0] = start;
        at[0] = c->first[start];
        while (c->next[start] == none) {
            if (at[depth] == c->first[path[depth] + 1]) {
                if (!depth--) return false;
                continue;
            }
            if (!looks--) return false;
            uint32_t to = c->near[at[depth]++];
            if (seen[to] == start) continue;
            seen[to] = start;
            if (c->before[to] != none) {
                path[++depth] = c->before[to];
                at[depth] = c->first[path[depth]];
                continue;
            }
            for (uint32_t i = depth + 1; i-- > 0;) arc(c, path[i], c->near[at[i] - 1]);
        }
    }
    return true;
}

/* Tell cycles apart, and return their number. */
static uint32_t label(struct cover *c)
{
    uint32_t cycles = 0;
    for (uint32_t n = 0; n < c->nodes; n++) c->of[n] = c->nodes;
    for (uint32_t n = 0; n < c->nodes; n++) {
        if (c->of[n] != c->nodes) continue;
        uint32_t size = 0;
        for (uint32_t at = n; c->of[at] == c->nodes; at = c->next[at], size++) c->of[at] = n;
        c->size[n] = size;
        cycles++;
    }
    return cycles;
}

static void turn(struct cover *c, uint32_t start)
{
    uint32_t at = start;
    do {
        uint32_t on = c->next[at];
        c->next[at] = c->before[at];
        c->before[at] = on;
        at = on;
    } while (at != start);
}

/* Exchange a -> b and e -> d for a -> d and e -> b, if there are these edges. */
static bool exchange(struct cover *c, uint32_t a, uint32_t d)
{
    uint32_t b = c->next[a], e = c->before[d];
    if (b == d || a == e || b == e || !joined(c, e, b)) return false;
    arc(c, a, d);
    arc(c, e, b);
    return true;
}

/* Join cycles as long as two can be, either way round; returns how many of `cycles` are left. */
static uint32_t join(struct cover *c, uint32_t cycles)
{
    for (bool found = true; found && cycles > 1;) {
        found = false;
        for (uint32_t a = 0; a < c->nodes; a++)
            for (uint32_t i = c->first[a]; i < c->first[a + 1]; i++) {
                uint32_t d = c->near[i], one = root(c, a), other = root(c, d);
                if (one == other) continue;
                if (!exchange(c, a, d)) {
                    if (!joined(c, c->next[a], c->next[d])) continue;
                    if (c->size[one] < c->size[other]) {
                        turn(c, a);
                        exchange(c, d, a);
                    } else {
                        turn(c, d);
                        exchange(c, a, d);
                    }
                }
                c->of[other] = one;
                c->size[one] += c->size[other];
                cycles--;
                found = true;
            }
    }
    return cycles;
}

/* Part a cycle somewhere, or change its course; returns whether that can be done. */
static bool disturb(struct cover *c)
{
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t a = (uint32_t)(draw(c) % c->nodes), degree = c->first[a + 1] - c->first[a];
        uint32_t d = c->near[c->first[a] + (uint32_t)(draw(c) % degree)];
        if (root(c, a) == root(c, d) && exchange(c, a, d)) return true;
    }
    return false;
}

static void copy(const struct cover *c, uint32_t *next, uint32_t *before, const uint32_t *from, const uint32_t *back)
{
    memcpy(next, from, c->nodes * sizeof *next);
    memcpy(before, back, c->nodes * sizeof *before);
}

/* near[first[n] .. first[n + 1]), ascending and at least one: the neighbours of n. Writes who follows whom. Returns the
 * number of cycles that are left after `turns` disturbances: 1 is success; 0: there is no memory, or not even a cover. */
uint32_t cycle(uint32_t nodes, const uint32_t *first, const uint32_t *near, uint32_t turns, uint64_t seed, uint32_t *next)
{
    uint32_t *room = malloc(5 * ((size_t)nodes + 1) * sizeof *room), cycles = 0;
    struct cover cover = { .nodes = nodes, .first = first, .near = near, .next = next, .before = room,
                           .of = room + nodes, .size = room + 2 * (size_t)nodes, .kept_next = room + 3 * (size_t)nodes,
                           .kept_before = room + 4 * (size_t)nodes, .random = (seed + 1) * 0x9e3779b97f4a7c15u | 1 };
    struct cover *c = &cover;
    if (room && match(c)) {
        cycles = join(c, label(c));
        for (uint32_t turn_number = 0; turn_number < turns && cycles > 1; turn_number++) {
            copy(c, c->kept_next, c->kept_before, c->next, c->before);
            if (!disturb(c)) break;
            uint32_t now = join(c, label(c));
            if (now <= cycles) {
                cycles = now;
            } else {
                copy(c, c->next, c->before, c->kept_next, c->kept_before);
                label(c);
            }
        }
    }
    free(room);
    return cycles;
}
