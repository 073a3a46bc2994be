/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Earliest-arrival routing on the time-expanded network: one chunk after the other takes the way that brings it
 * soonest, through whatever gaps the earlier ones left, and reserves it. A chunk for several NPUs takes a tree.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct gap { int64_t start, end; };    /* a busy stretch */
struct calendar { struct gap *busy; uint32_t count, capacity; };
struct entry { int64_t time; uint32_t npu; };

/* The earliest time from `at` on at which the port is free for `length`. */
static int64_t free_from(const struct calendar *calendar, int64_t at, int64_t length)
{
    uint32_t low = 0, high = calendar->count;
    while (low < high) {               /* the first stretch that ends after `at` */
        uint32_t middle = (low + high) / 2;
        if (calendar->busy[middle].end > at) high = middle; else low = middle + 1;
    }
    for (; low < calendar->count && calendar->busy[low].start < at + length; low++) at = calendar->busy[low].end;
    return at;
}

/* Of a port's calendars, one for each slot, the one that is free for `length` first; *at is when. */
static struct calendar *soonest(struct calendar *calendars, uint32_t slots, int64_t from, int64_t length, int64_t *at)
{
    struct calendar *best = NULL;
    for (uint32_t slot = 0; slot < slots; slot++) {
        int64_t time = free_from(&calendars[slot], from, length);
        if (!best || time < *at) { best = &calendars[slot]; *at = time; }
        if (time == from) break;
    }
    return best;
}

static bool reserve(struct calendar *calendar, int64_t start, int64_t end)
{
    uint32_t i = calendar->count;
    while (i && calendar->busy[i - 1].start > start) i--;
    if (i && calendar->busy[i - 1].end == start) {
        calendar->busy[i - 1].end = end;
        if (i < calendar->count && calendar->busy[i].start == end) {
            calendar->busy[i - 1].end = calendar->busy[i].end;
            memmove(calendar->busy + i, calendar->busy + i + 1, (calendar->count - i - 1) * sizeof *calendar->busy);
            calendar->count--;
        }
        return true;
    }
    if (i < calendar->count && calendar->busy[i].start == end) {
        calendar->busy[i].start = start;
        return true;
    }
    if (calendar->count == calendar->capacity) {
        uint32_t capacity = calendar->capacity ? 2 * calendar->capacity : 8;
        struct gap *busy = realloc(calendar->busy, capacity * sizeof *busy);
        if (!busy) return false;
        calendar->busy = busy;
        calendar->capacity = capacity;
    }
    memmove(calendar->busy + i + 1, calendar->busy + i, (calendar->count - i) * sizeof *calendar->busy);
    calendar->busy[i] = (struct gap){ start, end };
    calendar->count++;
    return true;
}

static void push(struct entry *heap, uint64_t *count, struct entry entry)
{
    uint64_t i = (*count)++;
    for (; i && heap[(i - 1) / 2].time > entry.time; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
}

static struct entry pop(struct entry *heap, uint64_t *count)
{
    struct entry top = heap[0], last = heap[--*count];
    uint64_t i = 0;
    for (uint64_t child; (child = 2 * i + 1) < *count; i = child) {
        if (child + 1 < *count && heap[child + 1].time < heap[child].time) child++;
        if (heap[child].time >= last.time) break;
        heap[i] = heap[child];
    }
    if (*count) heap[i] = last;
    return top;
}

/* Request r brings one chunk from from[r] to to[first_to[r] .. first_to[r + 1]). Writes the sends, request by request.
 * Returns their number; -1 without memory or room; -2 - r where request r has a destination out of reach. */
int64_t route(uint32_t npus, uint32_t links, const uint32_t *first_out, const uint32_t *out_link,
              const uint32_t *destination, const int64_t *duration, const uint32_t *first_port, const uint32_t *port,
              uint32_t ports, const uint32_t *slots, uint64_t requests, const uint32_t *from, const uint64_t *first_to, const uint32_t *to,
              uint64_t capacity, uint64_t *request, uint32_t *link, int64_t *start)
{
    int64_t sends = -1;
    uint32_t *first_slot = calloc((size_t)ports + 1, sizeof *first_slot);
    for (uint32_t p = 0; first_slot && p < ports; p++) first_slot[p + 1] = first_slot[p] + slots[p];
    struct calendar *calendar = first_slot ? calloc((size_t)first_slot[ports] + 1, sizeof *calendar) : NULL;
    int64_t *arrival = malloc(((size_t)npus + 1) * sizeof *arrival), *leaves = malloc(((size_t)npus + 1) * sizeof *leaves);
    int64_t *holds = malloc(((size_t)npus + 1) * sizeof *holds);
    uint32_t *by = malloc(((size_t)npus + 1) * sizeof *by), *origin = malloc(((size_t)links + 1) * sizeof *origin);
    uint32_t *way = malloc(((size_t)npus + 1) * sizeof *way);
    uint8_t *wants = calloc((size_t)npus + 1, 1);
    struct entry *heap = malloc(((size_t)links + npus + 1) * sizeof *heap);
    if (!calendar || !arrival || !leaves || !holds || !by || !origin || !way || !wants || !heap) goto out;
    for (uint32_t n = 0; n < npus; n++)
        for (uint32_t i = first_out[n]; i < first_out[n + 1]; i++) origin[out_link[i]] = n;
    sends = 0;
    for (uint64_t r = 0; r < requests; r++) {
        uint32_t open = 0;
        for (uint32_t n = 0; n < npus; n++) holds[n] = INT64_MAX;
        holds[from[r]] = 0;
        for (uint64_t i = first_to[r]; i < first_to[r + 1]; i++)
            if (to[i] != from[r] && !wants[to[i]]) { wants[to[i]] = 1; open++; }
        while (open) {                 /* the nearest NPU that still wants it, from wherever it is by then */
            uint64_t entries = 0;
            memcpy(arrival, holds, npus * sizeof *holds);
            for (uint32_t n = 0; n < npus; n++)
                if (holds[n] != INT64_MAX) push(heap, &entries, (struct entry){ holds[n], n });
            uint32_t reached = npus;
            while (entries) {
                struct entry entry = pop(heap, &entries);
                if (entry.time > arrival[entry.npu]) continue;
                if (wants[entry.npu]) { reached = entry.npu; break; }
                for (uint32_t i = first_out[entry.npu]; i < first_out[entry.npu + 1]; i++) {
                    uint32_t l = out_link[i], next = destination[l];
                    if (entry.time + duration[l] >= arrival[next]) continue;
                    int64_t at = entry.time;
                    for (bool moved = true; moved;) {
                        moved = false;
                        for (uint32_t p = first_port[l]; p < first_port[l + 1]; p++) {
                            int64_t later = at;
                            soonest(&calendar[first_slot[port[p]]], slots[port[p]], at, duration[l], &later);
                            moved |= later != at && p > first_port[l];
                            at = later;
                        }
                    }
                    if (at + duration[l] >= arrival[next]) continue;
                    arrival[next] = at + duration[l];
                    leaves[next] = at;
                    by[next] = l;
                    push(heap, &entries, (struct entry){ arrival[next], next });
                }
            }
            if (reached == npus) { sends = -2 - (int64_t)r; goto out; }
            uint32_t hops = 0;
            for (uint32_t n = reached; holds[n] == INT64_MAX; n = origin[by[n]]) way[hops++] = n;
            while (hops) {
                uint32_t n = way[--hops], l = by[n];
                if ((uint64_t)sends == capacity) { sends = -1; goto out; }
                for (uint32_t p = first_port[l]; p < first_port[l + 1]; p++) {
                    int64_t at = 0;
                    struct calendar *slot = soonest(&calendar[first_slot[port[p]]], slots[port[p]], leaves[n], duration[l], &at);
                    if (!reserve(slot, leaves[n], leaves[n] + duration[l])) { sends = -1; goto out; }
                }
                request[sends] = r;
                link[sends] = l;
                start[sends++] = leaves[n];
                holds[n] = arrival[n];
                if (wants[n]) { wants[n] = 0; open--; }
            }
        }
    }
out:
    for (uint32_t i = 0; calendar && i < first_slot[ports]; i++) free(calendar[i].busy);
    free(first_slot); free(calendar); free(arrival); free(leaves); free(holds); free(by); free(origin); free(way); free(wants); free(heap);
    return sends;
}
