/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * List scheduling: sends that wait for other sends get their times, the most urgent first wherever a link is free.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct event { int64_t time; uint64_t job; };

struct game {
    const uint32_t *link, *first_port, *port;
    const int64_t *duration, *priority;
    uint64_t *first_slot, *ready;      /* per link: a heap of ready jobs in ready[first_slot[l] ..] */
    uint64_t *waiting;                 /* per link: jobs in its heap */
    const uint32_t *slots;
    uint32_t *taken;                   /* per port: links that occupy it */
    uint8_t *listed;
    uint32_t *first_user, *user;       /* per port: links that use it */
    uint32_t *candidate, candidates;
    struct event *event;
    uint64_t events;
};

static bool before(const struct game *g, uint64_t a, uint64_t b)
{
    return g->priority[a] != g->priority[b] ? g->priority[a] > g->priority[b] : a < b;
}

static void push_ready(struct game *g, uint64_t job)
{
    uint32_t link = g->link[job];
    uint64_t *heap = g->ready + g->first_slot[link], i = g->waiting[link]++;
    for (; i && before(g, job, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = job;
    if (!g->listed[link]) {
        g->listed[link] = 1;
        g->candidate[g->candidates++] = link;
    }
}

static uint64_t pop_ready(struct game *g, uint32_t link)
{
    uint64_t *heap = g->ready + g->first_slot[link], top = heap[0], last = heap[--g->waiting[link]];
    uint64_t count = g->waiting[link], i = 0;
    for (uint64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && before(g, heap[child + 1], heap[child])) child++;
        if (!before(g, heap[child], last)) break;
        heap[i] = heap[child];
    }
    if (count) heap[i] = last;
    return top;
}

static bool sooner(struct event a, struct event b) { return a.time != b.time ? a.time < b.time : a.job < b.job; }

static void push_event(struct game *g, struct event event)
{
    uint64_t i = g->events++;
    for (; i && sooner(event, g->event[(i - 1) / 2]); i = (i - 1) / 2) g->event[i] = g->event[(i - 1) / 2];
    g->event[i] = event;
}

static struct event pop_event(struct game *g)
{
    struct event top = g->event[0], last = g->event[--g->events];
    uint64_t i = 0;
    for (uint64_t child; (child = 2 * i + 1) < g->events; i = child) {
        if (child + 1 < g->events && sooner(g->event[child + 1], g->event[child])) child++;
        if (!sooner(g->event[child], last)) break;
        g->event[i] = g->event[child];
    }
    if (g->events) g->event[i] = last;
    return top;
}

static void start_what_can(struct game *g, int64_t now, int64_t *start, uint64_t *started)
{
    for (uint32_t i = 1; g->candidates <= 4096 && i < g->candidates; i++) { /* urgent links first, where ports are shared */
        uint32_t link = g->candidate[i], k = i;
        if (!g->waiting[link]) continue;
        uint64_t top = g->ready[g->first_slot[link]];
        for (; k; k--) {
            uint32_t other = g->candidate[k - 1];
            if (g->waiting[other] && !before(g, top, g->ready[g->first_slot[other]])) break;
            g->candidate[k] = other;
        }
        g->candidate[k] = link;
    }
    for (uint32_t i = 0; i < g->candidates; i++) {
        uint32_t link = g->candidate[i];
        g->listed[link] = 0;
        bool idle = g->waiting[link] > 0;
        for (uint32_t p = g->first_port[link]; idle && p < g->first_port[link + 1]; p++) idle = g->taken[g->port[p]] < g->slots[g->port[p]];
        if (!idle) continue;
        uint64_t job = pop_ready(g, link);
        for (uint32_t p = g->first_port[link]; p < g->first_port[link + 1]; p++) g->taken[g->port[p]]++;
        start[job] = now;
        ++*started;
        push_event(g, (struct event){ now + g->duration[link], job });
    }
    g->candidates = 0;
}

/* first_next/next: the jobs that wait for a job; waits[j]: for how many it waits (consumed). Higher priority first.
 * Writes each job's start; returns how many started: fewer than `jobs` if they wait in a circle; 0 without memory. */
uint64_t play(uint64_t jobs, uint32_t links, uint32_t ports, const uint32_t *link, const int64_t *duration,
              const uint64_t *first_next, const uint64_t *next, uint32_t *waits, const int64_t *priority,
              const uint32_t *first_port, const uint32_t *port, const uint32_t *slots, int64_t *start)
{
    struct game game = { .link = link, .first_port = first_port, .port = port, .duration = duration,
                         .priority = priority, .slots = slots };
    struct game *g = &game;
    uint64_t started = 0;
    g->first_slot = calloc((size_t)links + 2, sizeof *g->first_slot);
    g->waiting = calloc((size_t)links + 1, sizeof *g->waiting);
    g->ready = malloc((jobs + 1) * sizeof *g->ready);
    g->taken = calloc((size_t)ports + 1, sizeof *g->taken);
    g->listed = calloc((size_t)links + 1, 1);
    g->first_user = calloc((size_t)ports + 2, sizeof *g->first_user);
    g->user = malloc((first_port[links] + 1) * sizeof *g->user);
    g->candidate = malloc(((size_t)links + 1) * sizeof *g->candidate);
    g->event = malloc(((size_t)links + 1) * sizeof *g->event);
    if (g->first_slot && g->waiting && g->ready && g->taken && g->listed && g->first_user && g->user &&
        g->candidate && g->event) {
        for (uint64_t j = 0; j < jobs; j++) g->first_slot[link[j] + 1]++;
        for (uint32_t l = 0; l < links; l++) g->first_slot[l + 1] += g->first_slot[l];
        for (uint32_t i = 0; i < first_port[links]; i++) g->first_user[port[i] + 2]++;
        for (uint32_t p = 0; p < ports; p++) g->first_user[p + 1] += g->first_user[p];
        for (uint32_t l = 0; l < links; l++)
            for (uint32_t i = first_port[l]; i < first_port[l + 1]; i++) g->user[g->first_user[port[i] + 1]++] = l;
        for (uint64_t j = 0; j < jobs; j++)
            if (!waits[j]) push_ready(g, j);
        start_what_can(g, 0, start, &started);
        while (g->events) {
            int64_t now = g->event[0].time;
            while (g->events && g->event[0].time == now) {
                uint64_t job = pop_event(g).job;
                uint32_t done = link[job];
                for (uint32_t i = first_port[done]; i < first_port[done + 1]; i++) {
                    g->taken[port[i]]--;
                    for (uint32_t u = g->first_user[port[i]]; u < g->first_user[port[i] + 1]; u++) {
                        uint32_t wakes = g->user[u];
                        if (g->listed[wakes] || !g->waiting[wakes]) continue;
                        g->listed[wakes] = 1;
                        g->candidate[g->candidates++] = wakes;
                    }
                }
                for (uint64_t i = first_next[job]; i < first_next[job + 1]; i++)
                    if (--waits[next[i]] == 0) push_ready(g, next[i]);
            }
            start_what_can(g, now, start, &started);
        }
    }
    free(g->first_slot); free(g->waiting); free(g->ready); free(g->taken); free(g->listed); free(g->first_user);
    free(g->user); free(g->candidate); free(g->event);
    return started;
}
