/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * All-Gather on a network that every translation maps onto itself: one source's chunk is scheduled, all others are
 * its translations. A class is the set of links that are translations of each other. The source's chunk uses a class
 * once for each NPU that it reaches by it, and the translations of one such use occupy every link of the class at that
 * time. So no two uses of a class may overlap, and that is all: a class is one machine, an NPU to reach is a job that
 * any class may do whose link comes from an NPU that holds the chunk. Where an NPU has several chunks, each is given a
 * copy of the NPUs of its own; the classes serve all copies.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum rule {
    FIRST = 0,                         /* the earliest arrival is sent on first */
    RANDOM = 1,
    YIELD = 2,                         /* leave what a faster class may bring */
    PATIENT = 3,                       /* leave what a faster class would bring no later, part of its backlog counted */
    SCARCE = 4,                        /* so, and prefer what the fewest classes could reach by now */
};

struct state {
    uint32_t npus, machines;
    const uint32_t *first_class, *neighbour, *before;
    const int64_t *duration;
    enum rule rule;
    uint32_t *log, held, *pointer;
    uint8_t *claimed;
    int64_t *free_at, *holds;
    int64_t now;
    int64_t *open;                     /* per class: NPUs to reach that it could, from one that is reached */
    double backlog_share;
    uint64_t random;
};

static uint64_t draw(struct state *s)
{
    s->random ^= s->random << 13; s->random ^= s->random >> 7; s->random ^= s->random << 17;
    return s->random;
}

/* Would a faster class reach `target` no later, from an NPU that holds the chunk or is about to? */
static bool leave_to_faster(const struct state *s, uint32_t class, uint32_t target)
{
    for (uint32_t m = 0; m < s->machines; m++)
        for (uint32_t c = s->first_class[m]; c < s->first_class[m + 1]; c++) {
            if (s->duration[c] >= s->duration[class]) continue;
            uint32_t from = s->before[(size_t)c * s->npus + target];
            if (!s->claimed[from]) continue;
            if (s->rule == YIELD) return true;
            int64_t at = s->free_at[m] > s->now ? s->free_at[m] : s->now;
            if (s->holds[from] > at) at = s->holds[from];
            double waits = s->backlog_share * (double)(s->open[c] - 1) * (double)s->duration[c];
            if ((double)(at + s->duration[c]) + waits <= (double)(s->now + s->duration[class])) return true;
        }
    return false;
}

/* How many classes could reach `target`, from an NPU that is reached. */
static uint32_t ways(const struct state *s, uint32_t target)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < s->first_class[s->machines]; c++)
        count += s->claimed[s->before[(size_t)c * s->npus + target]];
    return count;
}

static void claim(struct state *s, uint32_t npu)
{
    s->claimed[npu] = 1;
    if (s->rule < PATIENT) return;
    for (uint32_t c = 0; c < s->first_class[s->machines]; c++) {
        s->open[c] += !s->claimed[s->neighbour[(size_t)c * s->npus + npu]];
        s->open[c] -= s->claimed[s->before[(size_t)c * s->npus + npu]];
    }
}

/* What machine m does now: the class in *class, returns the target, or npus. */
static uint32_t choose(struct state *s, uint32_t m, uint32_t *class)
{
    uint32_t target = s->npus, seen = 0, fewest = UINT32_MAX;
    for (uint32_t c = s->first_class[m]; c < s->first_class[m + 1]; c++) {
        const uint32_t *neighbour = s->neighbour + (size_t)c * s->npus;
        uint32_t at = s->pointer[c];
        while (at < s->held && s->claimed[neighbour[s->log[at]]]) at++;
        s->pointer[c] = at;
        for (; at < s->held; at++) {
            uint32_t next = neighbour[s->log[at]];
            if (s->claimed[next]) continue;
            if (s->rule >= YIELD && leave_to_faster(s, c, next)) continue;
            if (s->rule == SCARCE) {
                uint32_t count = ways(s, next);
                if (count > fewest) continue;
                if (count < fewest) seen = 0;
                fewest = count;
            }
            if (draw(s) % ++seen == 0) { target = next; *class = c; }
            if (s->rule == FIRST) break;
        }
    }
    return target;
}

/* `npus` counts those of all `parts` copies; each copy starts with its source.
 * Classes first_class[m] .. first_class[m + 1] share machine m. neighbour[c * npus + x]: where class c leads from x.
 * Writes, in order of start, each send's target, class and start; returns the time of the last end, -1 without memory,
 * -2 if not all are reached. */
int64_t symmetric(uint32_t npus, uint32_t parts, uint32_t machines, uint32_t classes, const uint32_t *first_class,
                  const uint32_t *neighbour, const int64_t *duration, uint64_t seed, int rule, uint32_t *target,
                  uint32_t *class_of, int64_t *start)
{
    int64_t end = -1;
    uint32_t *before = malloc(((size_t)classes * npus + 1) * sizeof *before);
    struct state state = { .npus = npus, .machines = machines, .first_class = first_class, .neighbour = neighbour,
                           .before = before, .duration = duration, .rule = (enum rule)rule };
    struct state *s = &state;
    s->random = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
    s->log = malloc(((size_t)npus + 1) * sizeof *s->log);
    s->pointer = calloc((size_t)classes + 1, sizeof *s->pointer);
    s->claimed = calloc((size_t)npus + 1, 1);
    s->open = calloc((size_t)classes + 1, sizeof *s->open);
    s->free_at = calloc((size_t)machines + 1, sizeof *s->free_at);
    s->holds = calloc((size_t)npus + 1, sizeof *s->holds);
    uint32_t *flying = malloc(((size_t)machines + 1) * sizeof *flying);
    uint32_t *turn = malloc(((size_t)machines + 1) * sizeof *turn);
    if (!before || !s->log || !s->pointer || !s->claimed || !s->open || !s->free_at || !s->holds || !flying || !turn) goto out;
    for (uint32_t c = 0; c < classes; c++)
        for (uint32_t x = 0; x < npus; x++) before[(size_t)c * npus + neighbour[(size_t)c * npus + x]] = x;
    for (uint32_t m = 0; m < machines; m++) { flying[m] = npus; turn[m] = m; }
    s->backlog_share = (double)(draw(s) & 7) / 7;
    for (uint32_t i = 0; i < npus; i += npus / parts) {
        s->log[s->held++] = i;
        claim(s, i);
    }
    uint32_t sent = 0;
    end = 0;
    for (;;) {
        for (uint32_t i = 0; i + 1 < machines; i++) { /* faster machines first, ties in random order */
            uint32_t pick = i + (uint32_t)(draw(s) % (machines - i)), m = turn[pick];
            turn[pick] = turn[i];
            turn[i] = m;
        }
        for (uint32_t i = 1; i < machines; i++)
            for (uint32_t k = i; k && duration[first_class[turn[k]]] < duration[first_class[turn[k - 1]]]; k--) {
                uint32_t m = turn[k];
                turn[k] = turn[k - 1];
                turn[k - 1] = m;
            }
        for (uint32_t i = 0; i < machines; i++) {
            uint32_t m = turn[i], class = 0;
            if (flying[m] != npus) continue;
            uint32_t next = choose(s, m, &class);
            if (next == npus) continue;
            claim(s, next);
            s->free_at[m] = s->holds[next] = s->now + duration[class];
            flying[m] = next;
            target[sent] = next;
            class_of[sent] = class;
            start[sent++] = s->now;
            if (s->free_at[m] > end) end = s->free_at[m];
        }
        int64_t next = INT64_MAX;
        for (uint32_t m = 0; m < machines; m++)
            if (flying[m] != npus && s->free_at[m] < next) next = s->free_at[m];
        if (next == INT64_MAX) break;
        s->now = next;
        for (uint32_t m = 0; m < machines; m++)
            if (flying[m] != npus && s->free_at[m] == next) {
                s->log[s->held++] = flying[m];
                flying[m] = npus;
            }
    }
    if (sent != npus - parts) end = -2;
out:
    free(before); free(s->log); free(s->pointer); free(s->claimed); free(s->open); free(s->free_at); free(s->holds); free(flying);
    free(turn);
    return end;
}
