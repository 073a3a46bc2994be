/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: plays a schedule, send by send, on the network that it is for, and knows nothing of how it was made.
 *
 * Copies are tracked as bits: a chunk is held where it has been brought, unless it is still on its way. Sums are played
 * with numbers: every contribution is a random number modulo the prime 2^61 - 1, and a chunk is right where it equals
 * the sum of all contributions: an error survives with probability 2^-61 (Schwartz and Zippel). A send carries what its
 * source holds when it starts; it lands when it ends. Sends come in order of their start, in as many pieces as the
 * caller likes; landings of sums are made up for when an NPU is looked at, so that memory is bounded by the NPUs and
 * chunks and not by the sends. Bits lie chunk by chunk, since both ends of a send are often near each other by number.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PRIME ((1ull << 61) - 1)
#define UNDEFINED 0x123456789abcdefull

enum { AHEAD = 12, LINE = 64, HUGE_PAGE = 1 << 21 };

enum verdict { RIGHT, UNKNOWN, OUT_OF_ORDER, WRONG_DURATION, BUSY, NOT_HELD, DUPLICATE, NO_SUM_WANTED, ABSENT, WRONG_SUM };

struct link {                          /* what playing a send looks at, in one line of the cache */
    _Alignas(LINE) int64_t end;        /* of the last send over it */
    uint64_t value;                    /* which this send carries, where sums are played */
    int64_t duration;
    uint32_t chunk, source, destination;
    bool reduces, pending;             /* pending: it has not landed, where sums are played */
};

struct verifier {
    uint32_t npus, links, chunks, ports;
    size_t words;
    bool sums;
    struct link *link;
    const uint32_t *first_in, *in_link;
    const uint32_t *first_port, *port, *first_slot;  /* NULL: links share nothing */
    int64_t *free_at;                  /* per slot: port p has slots first_slot[p] .. first_slot[p + 1] - 1 */
    int64_t *arriving;                 /* per NPU: when the last send to it that was played ends */
    uint64_t *brought;                 /* chunks x words: a copy is here, or on its way */
    uint64_t *held, *value;            /* where sums are played: chunks x words, it is here; chunks x npus, the sum */
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
    return bits[chunk * v->words + (npu >> 6)] >> (npu & 63) & 1;
}

static void set(const struct verifier *v, uint64_t *bits, uint32_t npu, uint32_t chunk)
{
    bits[chunk * v->words + (npu >> 6)] |= 1ull << (npu & 63);
}

static uint64_t *sum(const struct verifier *v, uint32_t npu, uint32_t chunk)
{
    return &v->value[(size_t)chunk * v->npus + npu];
}

static void land(struct verifier *v, struct link *link)
{
    uint64_t *value = sum(v, link->destination, link->chunk);
    bool adds = link->reduces && test(v, v->held, link->destination, link->chunk);
    *value = adds ? (*value + link->value) % PRIME : link->value;
    set(v, v->held, link->destination, link->chunk);
    link->pending = false;
}

/* Land, in the order of their ends, the sends to this NPU that have ended by `now`. Where a copy of a chunk and an
 * addition to it end together, nobody can say what is left: no sum is right that is made of it. */
static void settle(struct verifier *v, uint32_t npu, int64_t now)
{
    for (;;) {
        struct link *earliest = NULL;
        for (uint32_t i = v->first_in[npu]; i < v->first_in[npu + 1]; i++) {
            struct link *link = &v->link[v->in_link[i]];
            if (!link->pending || link->end > now) continue;
            if (earliest && link->end == earliest->end && link->chunk == earliest->chunk &&
                link->reduces != earliest->reduces)
                link->value = earliest->value = UNDEFINED;
            if (!earliest || link->end < earliest->end) earliest = link;
        }
        if (!earliest) return;
        land(v, earliest);
    }
}

/* Zeroed; of huge pages where there are any, since reads jump about in it. */
static void *zeroed(size_t bytes)
{
    size_t size = (bytes / HUGE_PAGE + 1) * HUGE_PAGE;
    void *memory = aligned_alloc(HUGE_PAGE, size);
    if (!memory) return NULL;
    if (bytes > HUGE_PAGE) madvise(memory, size, MADV_HUGEPAGE);
    return memset(memory, 0, bytes);
}

void verifier_free(struct verifier *v)
{
    if (!v) return;
    free(v->free_at); free(v->link); free(v->arriving); free(v->brought); free(v->held); free(v->value); free(v);
}

/* in_link[first_in[n] .. first_in[n + 1]): the links into n. port[first_port[l] .. first_port[l + 1]): what a send over
 * l occupies; NULL where links share nothing. The arrays stay the caller's. NULL: no memory. */
struct verifier *verifier_new(uint32_t npus, uint32_t links, uint32_t chunks, uint32_t ports, const uint32_t *source,
                              const uint32_t *destination, const uint32_t *first_in, const uint32_t *in_link,
                              const uint32_t *first_port, const uint32_t *port, const uint32_t *first_slot,
                              const int64_t *duration, int sums,
                              uint64_t seed)
{
    struct verifier *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    v->npus = npus; v->links = links; v->chunks = chunks; v->ports = ports; v->words = ((size_t)npus + 63) / 64;
    v->sums = sums; v->first_in = first_in; v->in_link = in_link; v->seed = seed;
    v->first_port = first_port; v->port = port; v->first_slot = first_slot;
    v->free_at = calloc(first_port ? (size_t)first_slot[ports] + 1 : 1, sizeof *v->free_at);
    v->link = zeroed(links * sizeof *v->link);
    v->arriving = calloc((size_t)npus + 1, sizeof *v->arriving);
    size_t bytes = chunks * v->words * sizeof *v->brought;
    v->brought = zeroed(bytes);
    v->held = sums ? zeroed(bytes) : NULL;
    v->value = sums ? calloc((size_t)npus * chunks + 1, sizeof *v->value) : NULL;
    if (!v->free_at || !v->link || !v->arriving || !v->brought || (sums && (!v->held || !v->value))) {
        verifier_free(v);
        return NULL;
    }
    for (uint32_t l = 0; l < links; l++)
        v->link[l] = (struct link){ .duration = duration[l], .source = source[l], .destination = destination[l] };
    return v;
}

/* At the start npu[i] holds chunk[i]: of a sum, its own contribution. */
void verifier_hold(struct verifier *v, uint64_t count, const uint32_t *npu, const uint32_t *chunk)
{
    for (uint64_t i = 0; i < count; i++) {
        set(v, v->sums ? v->held : v->brought, npu[i], chunk[i]);
        if (v->sums) *sum(v, npu[i], chunk[i]) = contribution(v, npu[i], chunk[i]);
    }
}

/* Whether an NPU has a chunk by now. */
static bool holds(const struct verifier *v, uint32_t npu, uint32_t chunk, int64_t now)
{
    if (v->sums) return test(v, v->held, npu, chunk);
    if (!test(v, v->brought, npu, chunk)) return false;
    if (v->arriving[npu] <= now) return true;
    for (uint32_t i = v->first_in[npu]; i < v->first_in[npu + 1]; i++) {
        const struct link *link = &v->link[v->in_link[i]];
        if (link->end > now && link->chunk == chunk) return false;
    }
    return true;
}

static enum verdict play(struct verifier *v, uint32_t chunk, uint32_t number, int64_t start, int64_t end, bool reduces)
{
    if (chunk >= v->chunks || number >= v->links) return UNKNOWN;
    struct link *link = &v->link[number];
    uint32_t from = link->source, to = link->destination;
    if (start < v->last_start) return OUT_OF_ORDER;
    if (end - start != link->duration) return WRONG_DURATION;
    if (reduces && !v->sums) return NO_SUM_WANTED;
    v->last_start = start;
    if (end > v->last_end) v->last_end = end;
    if (link->end > start) return BUSY;
    for (uint32_t i = v->first_port ? v->first_port[number] : 0; v->first_port && i < v->first_port[number + 1]; i++) {
        uint32_t slot = v->first_slot[v->port[i]], last = v->first_slot[v->port[i] + 1];
        while (slot < last && v->free_at[slot] > start) slot++;
        if (slot == last) return BUSY;
        v->free_at[slot] = end;
    }
    if (v->sums) {                     /* values must be up to date, in order */
        settle(v, from, start);
        settle(v, to, start);
    }
    if (!holds(v, from, chunk, start)) return NOT_HELD;
    if (!reduces) {
        if (test(v, v->brought, to, chunk)) return DUPLICATE;
        set(v, v->brought, to, chunk);
    }
    if (end > v->arriving[to]) v->arriving[to] = end;
    link->end = end;
    link->chunk = chunk;
    link->value = v->sums ? *sum(v, from, chunk) : 0;
    link->reduces = reduces;
    link->pending = true;
    return RIGHT;
}

/* Bring into the cache what a send to come will look at: of a large network, that is what playing waits for. */
static void fetch(const struct verifier *v, uint32_t chunk, uint32_t number)
{
    if (chunk >= v->chunks || number >= v->links) return;
    const struct link *link = &v->link[number];
    const uint64_t *row = v->brought + chunk * v->words;
    __builtin_prefetch(&row[link->source >> 6]);
    __builtin_prefetch(&row[link->destination >> 6], 1);
    __builtin_prefetch(&v->arriving[link->source]);
    __builtin_prefetch(&v->arriving[link->destination], 1);
}

/* Play `count` more sends. Returns RIGHT or what is wrong with send *at. */
int verifier_play(struct verifier *v, uint64_t count, const uint32_t *chunk, const uint32_t *link, const int64_t *start,
                  const int64_t *end, const uint8_t *reduces, uint64_t *at)
{
    for (*at = 0; *at < count; ++*at) {
        if (*at + 2 * AHEAD < count && link[*at + 2 * AHEAD] < v->links)
            __builtin_prefetch(&v->link[link[*at + 2 * AHEAD]], 1);
        if (*at + AHEAD < count) fetch(v, chunk[*at + AHEAD], link[*at + AHEAD]);
        enum verdict verdict = play(v, chunk[*at], link[*at], start[*at], end[*at], reduces && reduces[*at]);
        if (verdict != RIGHT) return verdict;
    }
    return RIGHT;
}

static enum verdict check(const struct verifier *v, uint32_t npu, uint32_t chunk, uint64_t total)
{
    if (!holds(v, npu, chunk, INT64_MAX)) return ABSENT;
    if (v->sums && *sum(v, npu, chunk) != total) return WRONG_SUM;
    return RIGHT;
}

/* All sends are played: what has ended has landed. Returns when the last one ended. */
int64_t verifier_end(struct verifier *v)
{
    for (uint32_t npu = 0; v->sums && npu < v->npus; npu++) settle(v, npu, INT64_MAX);
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
    *at = 0;
    for (uint32_t chunk = 0; chunk < v->chunks; chunk++) {
        uint64_t total = total_of(v, chunk, member, members);
        for (uint32_t i = 0; i < members; i++, ++*at) {
            enum verdict verdict = check(v, member[i], chunk, total);
            if (verdict != RIGHT) return verdict;
        }
    }
    return RIGHT;
}
