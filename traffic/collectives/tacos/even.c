/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * All-Gather by greedy matching where every link takes equally long: match.c's rule without its event queue.
 *
 * Time goes in steps. In each, every link looks on from its pointer in its source's log, as far as the log had grown
 * before the step, for a chunk that its destination has not claimed, and sends it; it arrives when the step ends.
 * Claims and logs belong to the destination, so destinations are split over threads, and the result does not depend
 * on the split. Every link passes every entry of its source's log once: O(links x chunks).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef WIDE
typedef uint32_t chunk_t;
#define NAME(x) x##_wide
#else
typedef uint16_t chunk_t;              /* up to 65,536 chunks: halves the logs, which dominate memory */
#define NAME(x) x##_narrow
#endif

enum { THREADS_MAX = 16, PARALLEL_FROM = 32768, LINE = 64, LOOKS = 4, AHEAD = 3 };
enum { CACHED = 1 << 23 };             /* bytes of claims that stay in the processor's caches */

struct even {
    uint32_t npus, links, chunks, words, threads;
    const uint32_t *source, *first_in;
    chunk_t *log;                      /* NPU n's from log[n * stride] on, in order of arrival */
    size_t stride;
    uint32_t *held, *grown;            /* log lengths: at the start of the step, and with what is on its way */
    uint32_t *full;                    /* log lengths in the end */
    uint64_t *claimed;                 /* npus x words: held, on its way, or not wanted */
    uint32_t *pointer;                 /* per link, into its source's log */
    uint64_t seed, step;
    uint32_t *chunk, *link;            /* where this step's sends go */
    uint32_t first[THREADS_MAX + 1];   /* thread t decides for NPUs first[t] .. first[t + 1] - 1 */
    uint32_t sent[THREADS_MAX];
    pthread_t worker[THREADS_MAX];
    pthread_barrier_t begin, end;
    bool stop;
};

struct start { struct even *even; uint32_t index; };

static inline uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static inline uint32_t look(const uint64_t *claimed, uint32_t chunk) { return ~claimed[chunk >> 6] >> (chunk & 63) & 1; }

/* Fetch what the links into an NPU will look at soon: its claims on the next chunks of their sources' logs. */
static inline void prefetch_claims(const struct even *e, uint32_t to)
{
    const uint64_t *claimed = e->claimed + (size_t)to * e->words;
    for (uint32_t link = e->first_in[to]; link < e->first_in[to + 1]; link++) {
        const chunk_t *log = e->log + e->source[link] * e->stride + e->pointer[link];
        for (uint32_t i = 0; i < LOOKS; i++) __builtin_prefetch(&claimed[log[i] >> 6], 1);
    }
}

static inline void prefetch_logs(const struct even *e, uint32_t to)
{
    for (uint32_t link = e->first_in[to]; link < e->first_in[to + 1]; link++)
        __builtin_prefetch(&e->log[e->source[link] * e->stride + e->pointer[link]]);
}

/* The sends into NPUs low .. high - 1; returns their number. `far`: claims do not fit in the caches. */
static inline __attribute__((always_inline)) uint32_t decide(struct even *e, uint32_t low, uint32_t high,
                                                             uint32_t *chunks, uint32_t *links, const bool far)
{
    const uint32_t *source = e->source, *first_in = e->first_in, *held = e->held;
    uint32_t sent = 0, *pointer = e->pointer;
    const uint64_t turn = e->seed ^ e->step * 0x9e3779b97f4a7c15u;
    for (uint32_t to = low; to < high; to++) {
        if (far && to + 2 * AHEAD < high) prefetch_logs(e, to + 2 * AHEAD);
        if (far && to + AHEAD < high) prefetch_claims(e, to + AHEAD);
        uint32_t first = first_in[to], last = first_in[to + 1], grown = e->grown[to];
        if (grown == e->full[to]) continue;
        uint64_t *claimed = e->claimed + (size_t)to * e->words;
        chunk_t *own = e->log + to * e->stride;
        uint32_t link = first + (uint32_t)((mix(turn + to) >> 32) * (last - first) >> 32);
        for (uint32_t i = first; i < last; i++, link = link + 1 == last ? first : link + 1) {
            uint32_t from = source[link], at = pointer[link], left = held[from] - at, open;
            const chunk_t *log = e->log + from * e->stride + at;
            for (;;) {                 /* no branch on what is found: half of them would be mispredicted */
                open = look(claimed, log[0]) | look(claimed, log[1]) << 1 | look(claimed, log[2]) << 2 |
                       look(claimed, log[3]) << 3;
                open &= (1u << (left < LOOKS ? left : LOOKS)) - 1;
                if (open || left <= LOOKS) break;
                log += LOOKS;
                at += LOOKS;
                left -= LOOKS;
            }
            uint32_t found = open != 0, skip = (uint32_t)__builtin_ctz(open | 1u << LOOKS);
            skip = found ? skip : left;
            uint32_t chunk = log[skip];
            claimed[chunk >> 6] |= (uint64_t)found << (chunk & 63);
            own[grown] = (chunk_t)chunk;
            chunks[sent] = chunk;
            links[sent] = link;
            grown += found;
            sent += found;
            pointer[link] = at + skip + found;
        }
        e->grown[to] = grown;
    }
    return sent;
}

static void decide_part(struct even *e, uint32_t part)
{
    uint32_t low = e->first[part], high = e->first[part + 1], offset = e->first_in[low] + part;
    if ((size_t)e->npus * e->words * sizeof *e->claimed > CACHED)
        e->sent[part] = decide(e, low, high, e->chunk + offset, e->link + offset, true);
    else
        e->sent[part] = decide(e, low, high, e->chunk + offset, e->link + offset, false);
}

static void *work(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    for (;;) {
        pthread_barrier_wait(&start.even->begin);
        if (start.even->stop) return NULL;
        decide_part(start.even, start.index);
        pthread_barrier_wait(&start.even->end);
    }
}

/* Zeroed; of huge pages where there are any, since reads jump about in it. */
static void *huge(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static size_t log_bytes(const struct even *e) { return e->npus * e->stride * sizeof *e->log + LINE; }
static size_t claim_bytes(const struct even *e) { return (size_t)e->npus * e->words * sizeof *e->claimed + LINE; }

void NAME(even_free)(struct even *e)
{
    if (!e) return;
    if (e->threads > 1) {
        e->stop = true;
        pthread_barrier_wait(&e->begin);
        for (uint32_t i = 1; i < e->threads; i++) pthread_join(e->worker[i], NULL);
        pthread_barrier_destroy(&e->begin);
        pthread_barrier_destroy(&e->end);
    }
    if (e->log) munmap(e->log, log_bytes(e));
    if (e->claimed) munmap(e->claimed, claim_bytes(e));
    free(e->held); free(e->grown); free(e->full); free(e->pointer); free(e);
}

static void employ(struct even *e, uint32_t threads)
{
    pthread_barrier_init(&e->begin, NULL, threads);
    pthread_barrier_init(&e->end, NULL, threads);
    for (uint32_t i = 0; i <= threads; i++) {
        uint32_t npu = 0;
        while (npu < e->npus && e->first_in[npu] < (uint64_t)e->links * i / threads) npu++;
        e->first[i] = i == threads ? e->npus : npu;
    }
    e->threads = threads;
    for (uint32_t i = 1; i < threads; i++) {
        struct start *start = malloc(sizeof *start);
        *start = (struct start){ e, i };
        pthread_create(&e->worker[i], NULL, work, start);
    }
}

/* Links must be numbered by destination; `owner` names the NPU that holds a chunk at the start; `wanted`, npus x
 * words, what an NPU may receive (NULL: everything). The arrays stay the caller's. NULL: no memory. */
struct even *NAME(even_new)(uint32_t npus, uint32_t links, uint32_t chunks, const uint32_t *source,
                            const uint32_t *first_in, const uint32_t *owner, const uint64_t *wanted, uint64_t seed,
                            uint32_t threads)
{
    struct even *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->npus = npus; e->links = links; e->chunks = chunks; e->words = (chunks + 63) / 64;
    e->source = source; e->first_in = first_in; e->seed = mix(seed + 0x9e3779b97f4a7c15u);
    /* An odd number of cache lines apart, or equal places of all logs would share a few sets of the cache. */
    size_t lines = ((size_t)(chunks + LOOKS) * sizeof *e->log + LINE - 1) / LINE | 1;
    e->stride = lines * LINE / sizeof *e->log;
    e->threads = 1;
    e->first[1] = npus;
    e->log = huge(log_bytes(e));
    e->claimed = huge(claim_bytes(e));
    e->held = calloc((size_t)npus + 1, sizeof *e->held);
    e->grown = calloc((size_t)npus + 1, sizeof *e->grown);
    e->full = malloc(((size_t)npus + 1) * sizeof *e->full);
    e->pointer = calloc((size_t)links + 1, sizeof *e->pointer);
    if (!e->log || !e->claimed || !e->held || !e->grown || !e->full || !e->pointer) { NAME(even_free)(e); return NULL; }
    for (uint32_t n = 0; n < npus; n++) {
        uint64_t *claimed = e->claimed + (size_t)n * e->words;
        for (uint32_t w = 0; wanted && w < e->words; w++) claimed[w] = ~wanted[(size_t)n * e->words + w];
        e->full[n] = chunks;
    }
    for (uint32_t c = 0; c < chunks; c++) {
        e->log[owner[c] * e->stride + e->held[owner[c]]++] = (chunk_t)c;
        e->claimed[(size_t)owner[c] * e->words + (c >> 6)] |= 1ull << (c & 63);
    }
    memcpy(e->grown, e->held, npus * sizeof *e->held);
    if (threads > 1 && links >= PARALLEL_FROM) employ(e, threads > THREADS_MAX ? THREADS_MAX : threads);
    return e;
}

/* One step: writes its sends (room for `links` and THREADS_MAX more) and returns their number; 0: it is done. */
uint32_t NAME(even_step)(struct even *e, uint32_t *chunk, uint32_t *link)
{
    e->chunk = chunk;
    e->link = link;
    if (e->threads > 1) pthread_barrier_wait(&e->begin);
    decide_part(e, 0);
    if (e->threads > 1) pthread_barrier_wait(&e->end);
    uint32_t count = e->sent[0];
    for (uint32_t i = 1; i < e->threads; i++) {
        uint32_t offset = e->first_in[e->first[i]] + i;
        memmove(chunk + count, chunk + offset, e->sent[i] * sizeof *chunk);
        memmove(link + count, link + offset, e->sent[i] * sizeof *link);
        count += e->sent[i];
    }
    memcpy(e->held, e->grown, e->npus * sizeof *e->held);
    e->step++;
    return count;
}

/* All steps of `duration` ticks; the arrays have room for `capacity` sends. Returns the number of sends, or
 * capacity + 1 where there is no room for one more step. */
uint64_t NAME(even_run)(struct even *e, int64_t duration, uint64_t capacity, uint32_t *chunk, uint32_t *link,
                        int64_t *start)
{
    uint64_t sent = 0;
    for (int64_t now = 0;; now += duration) {
        if (sent + e->links + THREADS_MAX > capacity) return capacity + 1;
        uint32_t count = NAME(even_step)(e, chunk + sent, link + sent);
        if (!count) return sent;
        for (uint32_t i = 0; i < count; i++) start[sent + i] = now;
        sent += count;
    }
}
