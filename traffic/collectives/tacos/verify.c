/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: plays a schedule, send by send, on the network that it is for, and knows nothing of how it was made.
 *
 * Copies are tracked as bits. Sums are played with numbers: every contribution is a random number modulo the prime
 * 2^61 - 1, and a chunk is right where it equals the sum of all contributions: an error survives with probability
 * 2^-61 (Schwartz and Zippel). A send carries what its source holds when it starts; it lands when it ends. Sends come
 * in order of their start, in as many pieces as the caller likes; landings are made up for when an NPU is looked at,
 * so that memory is bounded by the NPUs and chunks and not by the sends.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PRIME ((1ull << 61) - 1)

enum { AHEAD = 8, HUGE_PAGE = 1 << 21 };

enum verdict { RIGHT, UNKNOWN, OUT_OF_ORDER, WRONG_DURATION, BUSY, NOT_HELD, DUPLICATE, NO_SUM_WANTED, ABSENT, WRONG_SUM };

struct flight { int64_t end; uint64_t value; uint32_t chunk; bool reduces, pending; };

struct verifier {
    uint32_t npus, links, chunks, ports;
    size_t words;
    bool sums;
    const uint32_t *source, *destination, *first_in, *in_link, *first_port, *port, *first_slot;
    const int64_t *duration;
    int64_t *free_at;                  /* per slot: port p has slots first_slot[p] .. first_slot[p + 1] - 1 */
    struct flight *flight;             /* per link: the last send over it */
    uint64_t *held, *stored;           /* npus x words; stored: a copy has been sent here (duplicates) */
    uint64_t *value;                   /* npus x chunks, where sums are played */
    int64_t last_start, last_end;
    uint64_t seed;
};

/* Of one NPU to one chunk, 1 .. PRIME - 1. */
static uint64_t contribution(const struct verifier *v, uint32_t npu, uint32_t chunk)
{
    uint64_t z = (v->seed ^ ((uint64_t)npu << 32 | chunk)) * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return 1 + (z ^ (z >> 31)) % (PRIME - 1); /* never 0, which nobody would miss */
}

static bool test(const struct verifier *v, const uint64_t *bits, uint32_t npu, uint32_t chunk)
{
    return bits[npu * v->words + (chunk >> 6)] >> (chunk & 63) & 1;
}

static void set(const struct verifier *v, uint64_t *bits, uint32_t npu, uint32_t chunk)
{
    bits[npu * v->words + (chunk >> 6)] |= 1ull << (chunk & 63);
}

static void land(struct verifier *v, uint32_t link)
{
    struct flight *flight = &v->flight[link];
    uint32_t npu = v->destination[link];
    if (v->sums) {
        uint64_t *value = &v->value[(size_t)npu * v->chunks + flight->chunk];
        bool adds = flight->reduces && test(v, v->held, npu, flight->chunk);
        *value = adds ? (*value + flight->value) % PRIME : flight->value;
    }
    set(v, v->held, npu, flight->chunk);
    flight->pending = false;
}

/* Land, in the order of their ends, the sends to this NPU that have ended by `now`. */
static void settle(struct verifier *v, uint32_t npu, int64_t now)
{
    for (;;) {
        uint32_t earliest = v->links;
        for (uint32_t i = v->first_in[npu]; i < v->first_in[npu + 1]; i++) {
            uint32_t link = v->in_link[i];
            const struct flight *flight = &v->flight[link];
            if (flight->pending && flight->end <= now && (earliest == v->links || flight->end < v->flight[earliest].end))
                earliest = link;
        }
        if (earliest == v->links) return;
        land(v, earliest);
    }
}

/* Words of zeros; of huge pages where there are any, since reads jump about in them. */
static uint64_t *bits(size_t words)
{
    size_t size = (words * sizeof(uint64_t) / HUGE_PAGE + 1) * HUGE_PAGE;
    uint64_t *memory = aligned_alloc(HUGE_PAGE, size);
    if (!memory) return NULL;
    if (words * sizeof *memory > HUGE_PAGE) madvise(memory, size, MADV_HUGEPAGE);
    return memset(memory, 0, words * sizeof *memory);
}

void verifier_free(struct verifier *v)
{
    if (!v) return;
    free(v->free_at); free(v->flight); free(v->held); free(v->stored); free(v->value); free(v);
}

/* in_link[first_in[n] .. first_in[n + 1]): the links into n. port[first_port[l] .. first_port[l + 1]): what a send over
 * l occupies. The arrays stay the caller's. NULL: no memory. */
struct verifier *verifier_new(uint32_t npus, uint32_t links, uint32_t chunks, uint32_t ports, const uint32_t *source,
                              const uint32_t *destination, const uint32_t *first_in, const uint32_t *in_link,
                              const uint32_t *first_port, const uint32_t *port, const uint32_t *first_slot,
                              const int64_t *duration, int sums,
                              uint64_t seed)
{
    struct verifier *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    v->npus = npus; v->links = links; v->chunks = chunks; v->ports = ports; v->words = ((size_t)chunks + 63) / 64;
    v->sums = sums; v->source = source; v->destination = destination; v->first_in = first_in; v->in_link = in_link;
    v->first_port = first_port; v->port = port; v->first_slot = first_slot; v->duration = duration; v->seed = seed;
    v->free_at = calloc((size_t)first_slot[ports] + 1, sizeof *v->free_at);
    v->flight = calloc((size_t)links + 1, sizeof *v->flight);
    v->held = bits(npus * v->words);
    v->stored = bits(npus * v->words);
    v->value = sums ? calloc((size_t)npus * chunks + 1, sizeof *v->value) : NULL;
    if (!v->free_at || !v->flight || !v->held || !v->stored || (sums && !v->value)) {
        verifier_free(v);
        return NULL;
    }
    return v;
}

/* At the start npu[i] holds chunk[i]: of a sum, its own contribution. */
void verifier_hold(struct verifier *v, uint64_t count, const uint32_t *npu, const uint32_t *chunk)
{
    for (uint64_t i = 0; i < count; i++) {
        set(v, v->held, npu[i], chunk[i]);
        if (v->sums) v->value[(size_t)npu[i] * v->chunks + chunk[i]] = contribution(v, npu[i], chunk[i]);
        else set(v, v->stored, npu[i], chunk[i]);
    }
}

static enum verdict play(struct verifier *v, uint32_t chunk, uint32_t link, int64_t start, int64_t end, bool reduces)
{
    if (chunk >= v->chunks || link >= v->links) return UNKNOWN;
    if (start < v->last_start) return OUT_OF_ORDER;
    if (end - start != v->duration[link]) return WRONG_DURATION;
    if (reduces && !v->sums) return NO_SUM_WANTED;
    v->last_start = start;
    if (end > v->last_end) v->last_end = end;
    for (uint32_t i = v->first_port[link]; i < v->first_port[link + 1]; i++) {
        uint32_t slot = v->first_slot[v->port[i]], last = v->first_slot[v->port[i] + 1];
        while (slot < last && v->free_at[slot] > start) slot++;
        if (slot == last) return BUSY;
        v->free_at[slot] = end;
    }
    struct flight *flight = &v->flight[link];
    uint32_t from = v->source[link], to = v->destination[link];
    if (flight->pending && flight->end > start) return BUSY;
    if (v->sums) {                     /* values must be up to date, in order */
        settle(v, from, start);
        settle(v, to, start);
    } else {
        if (flight->pending) land(v, link);
        if (!test(v, v->held, from, chunk)) settle(v, from, start);
    }
    if (!test(v, v->held, from, chunk)) return NOT_HELD;
    if (!reduces) {
        if (test(v, v->stored, to, chunk)) return DUPLICATE;
        set(v, v->stored, to, chunk);
    }
    *flight = (struct flight){ end, v->sums ? v->value[(size_t)from * v->chunks + chunk] : 0, chunk, reduces, true };
    return RIGHT;
}

/* Bring into the cache what a send to come will look at: of a large network, that is what playing waits for. */
static void fetch(const struct verifier *v, uint32_t chunk, uint32_t link)
{
    if (chunk >= v->chunks || link >= v->links) return;
    const struct flight *last = &v->flight[link];
    size_t from = v->source[link] * v->words + (chunk >> 6), to = v->destination[link] * v->words;
    __builtin_prefetch(&v->held[from]);
    __builtin_prefetch(&v->held[to + (last->chunk >> 6)], 1);
    __builtin_prefetch(&v->stored[to + (chunk >> 6)], 1);
}

/* Play `count` more sends. Returns RIGHT or what is wrong with send *at. */
int verifier_play(struct verifier *v, uint64_t count, const uint32_t *chunk, const uint32_t *link, const int64_t *start,
                  const int64_t *end, const uint8_t *reduces, uint64_t *at)
{
    for (*at = 0; *at < count; ++*at) {
        if (*at + AHEAD < count) fetch(v, chunk[*at + AHEAD], link[*at + AHEAD]);
        enum verdict verdict = play(v, chunk[*at], link[*at], start[*at], end[*at], reduces && reduces[*at]);
        if (verdict != RIGHT) return verdict;
    }
    return RIGHT;
}

static enum verdict check(const struct verifier *v, uint32_t npu, uint32_t chunk, uint64_t total)
{
    if (!test(v, v->held, npu, chunk)) return ABSENT;
    if (v->sums && v->value[(size_t)npu * v->chunks + chunk] != total) return WRONG_SUM;
    return RIGHT;
}

/* All sends are played: what has ended has landed. Returns when the last one ended. */
int64_t verifier_end(struct verifier *v)
{
    for (uint32_t npu = 0; npu < v->npus; npu++) settle(v, npu, INT64_MAX);
    return v->last_end;
}

static uint64_t total_of(const struct verifier *v, uint32_t chunk, const uint32_t *member, uint32_t members)
{
    uint64_t total = 0;
    for (uint32_t i = 0; v->sums && i < members; i++) total = (total + contribution(v, member[i], chunk)) % PRIME;
    return total;
}

/* After the end, npu[i] is to hold chunk[i]: of a sum, every member's contribution once. Pairs by ascending chunk are
 * fastest. Returns RIGHT or what is wrong with pair *at. */
int verifier_expect(struct verifier *v, uint64_t count, const uint32_t *npu, const uint32_t *chunk,
                    const uint32_t *member, uint32_t members, uint64_t *at)
{
    uint64_t total = 0;
    for (*at = 0; *at < count; ++*at) {
        if (*at == 0 || chunk[*at] != chunk[*at - 1]) total = total_of(v, chunk[*at], member, members);
        enum verdict verdict = check(v, npu[*at], chunk[*at], total);
        if (verdict != RIGHT) return verdict;
    }
    return RIGHT;
}

/* After the end, every member is to hold every chunk. *at: chunk * members + index of the member that does not. */
int verifier_expect_all(struct verifier *v, const uint32_t *member, uint32_t members, uint64_t *at)
{
    for (uint32_t i = 0; !v->sums && i < members; i++) /* copies: NPU by NPU, as they lie in memory */
        for (uint32_t chunk = 0; chunk < v->chunks; chunk++)
            if (!test(v, v->held, member[i], chunk)) {
                *at = (uint64_t)chunk * members + i;
                return ABSENT;
            }
    *at = 0;
    for (uint32_t chunk = 0; v->sums && chunk < v->chunks; chunk++) {
        uint64_t total = total_of(v, chunk, member, members);
        for (uint32_t i = 0; i < members; i++, ++*at) {
            enum verdict verdict = check(v, member[i], chunk, total);
            if (verdict != RIGHT) return verdict;
        }
    }
    return RIGHT;
}
