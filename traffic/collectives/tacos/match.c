/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * All-Gather by greedy matching on the time-expanded topology, O(links x chunks) (idea: TACOS, MICRO 2024).
 *
 * Every NPU keeps a log of chunks in the order in which they arrived, and a bitset of chunks that it holds or that are
 * on their way to it ("claimed"). A link reads its source's log through a pointer that only moves forward: what the
 * destination has claimed, it has claimed for ever. Times are integer ticks; a link is busy from start to end of a
 * send. Completions wait in one FIFO per distinct link time: equal times complete in the order they were started.
 *
 * Where all links take equally long, even.c does the same in a quarter of the time.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef WIDE
typedef uint32_t chunk_t;
#define NAME(x) x##_wide
#else
typedef uint16_t chunk_t;              /* up to 65,536 chunks: halves the logs, which dominate memory */
#define NAME(x) x##_narrow
#endif

enum { AHEAD = 8 };

enum rule {                            /* what a slow link does with a chunk that a faster neighbour could bring */
    RULE_GREEDY = 0,                   /* takes it */
    RULE_YIELD = 1,                    /* leaves it, if a faster neighbour of the destination holds it already */
    RULE_PATIENT = 2,                  /* leaves it, if that neighbour would bring it sooner, its backlog counted */
};

struct flight { uint32_t link; chunk_t chunk; };
struct lane { int64_t duration; uint32_t head, count, capacity; struct flight *flights; int64_t *ends; };

struct engine {
    uint32_t npus, links, chunks, words, lanes;
    enum rule rule;
    const uint32_t *source, *destination, *first_in, *first_out, *out_link;
    const int64_t *duration;
    const uint32_t *first_port, *port, *slots; /* what a link occupies while it sends; first_port NULL: nothing */
    uint32_t ports, *taken;            /* per port: links that occupy it */
    uint32_t *first_user, *user;       /* links that want port p: user[first_user[p] .. first_user[p + 1]) */
    uint32_t *lane_of;
    const uint64_t *wanted;            /* npus x words: what an NPU may receive; NULL: everything */
    chunk_t **log;                     /* per NPU, in order of arrival */
    uint32_t *held;                    /* log lengths */
    uint64_t *claimed;                 /* npus x words */
    uint32_t *pointer;                 /* per link, into its source's log */
    uint8_t *busy, *listed;            /* per link: sending; already in `ready` */
    uint8_t *grew;                     /* per NPU: already in `grown` */
    uint32_t *grown, grown_count;      /* NPUs whose logs grew at this instant */
    struct lane *lane;
    uint32_t *ready, *sorted; /* links to look at now, by destination */
    uint32_t ready_count;
    int64_t *choice;                   /* per ready link: chunk, or -1 */
    uint64_t seed, instant;
    int64_t now;
    uint64_t flying;
};

static inline uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline bool has(const uint64_t *bits, uint32_t chunk) { return bits[chunk >> 6] >> (chunk & 63) & 1; }

/* Would a faster link into `to` bring `chunk`, which its source already holds (RULE_PATIENT: sooner)? */
static bool leave_to_faster(const struct engine *e, uint32_t link, uint32_t chunk)
{
    uint32_t to = e->destination[link];
    for (uint32_t other = e->first_in[to]; other < e->first_in[to + 1]; other++) {
        if (e->duration[other] >= e->duration[link]) continue;
        uint32_t from = e->source[other];
        const uint64_t *claimed = e->claimed + (size_t)from * e->words;
        if (!has(claimed, chunk)) continue;
        if (e->rule == RULE_YIELD) return true;
        int64_t backlog = (int64_t)e->held[from] - e->pointer[other] + 1;
        if (backlog * e->duration[other] <= e->duration[link]) return true;
    }
    return false;
}

/* The next chunk in the source's log that the destination lacks, claimed for it; -1 if none. */
static int64_t choose(struct engine *e, uint32_t link)
{
    uint32_t from = e->source[link], to = e->destination[link];
    uint64_t *claimed = e->claimed + (size_t)to * e->words;
    const uint64_t *wanted = e->wanted ? e->wanted + (size_t)to * e->words : NULL;
    const chunk_t *log = e->log[from];
    uint32_t at = e->pointer[link], end = e->held[from];
    for (; at < end; at++) {
        uint32_t chunk = log[at];
        if (has(claimed, chunk) || (wanted && !has(wanted, chunk))) continue;
        if (e->rule != RULE_GREEDY && leave_to_faster(e, link, chunk)) {
            if (e->rule == RULE_PATIENT) { /* look again later: the pointer must not pass it */
                uint32_t keep = at;
                for (at++; at < end; at++) {
                    chunk = log[at];
                    if (has(claimed, chunk) || (wanted && !has(wanted, chunk)) || leave_to_faster(e, link, chunk)) continue;
                    claimed[chunk >> 6] |= 1ull << (chunk & 63);
                    e->pointer[link] = keep;
                    return chunk;
                }
                e->pointer[link] = keep;
                return -1;
            }
            continue;
        }
        claimed[chunk >> 6] |= 1ull << (chunk & 63);
        e->pointer[link] = at + 1;
        return chunk;
    }
    e->pointer[link] = at;
    return -1;
}

static void prefetch(const struct engine *e, uint32_t link)
{
    uint32_t from = e->source[link];
    if (e->pointer[link] >= e->held[from]) return;
    uint32_t chunk = e->log[from][e->pointer[link]];
    __builtin_prefetch(&e->claimed[(size_t)e->destination[link] * e->words + (chunk >> 6)], 1);
}

static void prefetch_log(const struct engine *e, uint32_t link)
{
    __builtin_prefetch(&e->log[e->source[link]][e->pointer[link]]);
}

/* Decide for sorted[low..high): whole destinations only. Within one, faster links first, ties in random order. */
static void decide(struct engine *e, uint32_t low, uint32_t high)
{
    for (uint32_t i = low; i < high;) {
        uint32_t to = e->destination[e->sorted[i]], j = i;
        while (j < high && e->destination[e->sorted[j]] == to) j++;
        uint64_t random = mix(e->seed ^ ((uint64_t)to << 32) ^ e->instant * 0x9e3779b97f4a7c15u);
        for (uint32_t a = i; a + 1 < j; a++) { /* in-degrees are small */
            uint32_t pick = a + (uint32_t)(((random & 0xffffffff) * (j - a)) >> 32);
            random = mix(random + a);
            uint32_t link = e->sorted[pick];
            e->sorted[pick] = e->sorted[a];
            e->sorted[a] = link;
        }
        if (e->lanes > 1)
          for (uint32_t a = i + 1; a < j; a++) /* stable insertion by link time */
            for (uint32_t b = a; b > i && e->duration[e->sorted[b]] < e->duration[e->sorted[b - 1]]; b--) {
                uint32_t link = e->sorted[b];
                e->sorted[b] = e->sorted[b - 1];
                e->sorted[b - 1] = link;
            }
        for (uint32_t a = i; a < j; a++) {
            if (a + 2 * AHEAD < high) prefetch_log(e, e->sorted[a + 2 * AHEAD]);
            if (a + AHEAD < high) prefetch(e, e->sorted[a + AHEAD]);
            e->choice[a] = choose(e, e->sorted[a]);
        }
        i = j;
    }
}

/* Whether the links' ports have a slot for it; takes them, or gives them back. */
static bool ports_free(const struct engine *e, uint32_t link)
{
    for (uint32_t i = e->first_port[link]; i < e->first_port[link + 1]; i++)
        if (e->taken[e->port[i]] >= e->slots[e->port[i]]) return false;
    return true;
}

static void occupy(struct engine *e, uint32_t link)
{
    for (uint32_t i = e->first_port[link]; i < e->first_port[link + 1]; i++) e->taken[e->port[i]]++;
}

/* The same where links share ports: one after the other, faster ones first, since what one takes another lacks. */
static void decide_with_ports(struct engine *e, uint32_t ready)
{
    uint64_t random = mix(e->seed ^ e->instant * 0x9e3779b97f4a7c15u);
    for (uint32_t i = 0; i + 1 < ready; i++) {
        random = mix(random + i);
        uint32_t pick = i + (uint32_t)(((random & 0xffffffff) * (ready - i)) >> 32), link = e->sorted[pick];
        e->sorted[pick] = e->sorted[i];
        e->sorted[i] = link;
    }
    uint32_t at = 0;
    for (uint32_t lane = 0; lane < e->lanes; lane++)  /* lanes are numbered by duration */
        for (uint32_t i = 0; i < ready; i++)
            if (e->lane_of[e->sorted[i]] == lane) e->ready[at++] = e->sorted[i];
    memcpy(e->sorted, e->ready, ready * sizeof *e->sorted);
    for (uint32_t i = 0; i < ready; i++) {
        e->choice[i] = ports_free(e, e->sorted[i]) ? choose(e, e->sorted[i]) : -1;
        if (e->choice[i] >= 0) occupy(e, e->sorted[i]);
    }
}

static void list(struct engine *e, uint32_t link)
{
    if (!e->listed[link] && !e->busy[link]) {
        e->listed[link] = 1;
        e->ready[e->ready_count++] = link;
    }
}

/* The link has sent: whoever wants its ports may have them. */
static void release(struct engine *e, uint32_t link)
{
    for (uint32_t i = e->first_port[link]; i < e->first_port[link + 1]; i++) {
        uint32_t port = e->port[i];
        e->taken[port]--;
        for (uint32_t u = e->first_user[port]; u < e->first_user[port + 1]; u++) list(e, e->user[u]);
    }
}

/* The NPU's log grew: its idle links may have work. Noted once an instant, however many chunks arrived. */
static void note_growth(struct engine *e, uint32_t npu)
{
    if (!e->grew[npu]) {
        e->grew[npu] = 1;
        e->grown[e->grown_count++] = npu;
    }
}

static void wake_all(struct engine *e)
{
    for (uint32_t g = 0; g < e->grown_count; g++) {
        uint32_t npu = e->grown[g];
        e->grew[npu] = 0;
        for (uint32_t i = e->first_out[npu]; i < e->first_out[npu + 1]; i++) list(e, e->out_link[i]);
    }
    e->grown_count = 0;
}

static int by_destination(const void *a, const void *b) /* link ids are numbered by destination */
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort_ready(struct engine *e)
{
    if (e->ready_count * 4 > e->links) { /* dense: one pass over all links */
        uint32_t n = 0;
        for (uint32_t link = 0; link < e->links; link++)
            if (e->listed[link]) e->sorted[n++] = link;
    } else {
        memcpy(e->sorted, e->ready, e->ready_count * sizeof *e->ready);
        qsort(e->sorted, e->ready_count, sizeof *e->sorted, by_destination);
    }
    for (uint32_t i = 0; i < e->ready_count; i++) e->listed[e->ready[i]] = 0;
}

void NAME(engine_free)(struct engine *e)
{
    if (!e) return;
    for (uint32_t n = 0; e->log && n < e->npus; n++) free(e->log[n]);
    for (uint32_t i = 0; e->lane && i < e->lanes; i++) { free(e->lane[i].flights); free(e->lane[i].ends); }
    free(e->log); free(e->held); free(e->claimed); free(e->pointer); free(e->busy); free(e->listed);
    free(e->grew); free(e->grown); free(e->taken); free(e->first_user); free(e->user);
    free(e->lane); free(e->lane_of); free(e->ready); free(e->sorted); free(e->choice); free(e);
}

/* Links must be numbered by destination; `chunk_owner` names the NPU that holds a chunk at the start. NULL: no memory. */
struct engine *NAME(engine_new)(uint32_t npus, uint32_t links, uint32_t chunks, const uint32_t *source, const uint32_t *destination,
                          const uint32_t *first_in, const uint32_t *first_out, const uint32_t *out_link,
                          const int64_t *duration, const uint32_t *lane_of, uint32_t lanes, const int64_t *lane_duration,
                          const uint32_t *chunk_owner, const uint64_t *wanted, const uint32_t *log_capacity, int rule,
                          uint64_t seed, const uint32_t *first_port, const uint32_t *port, uint32_t ports,
                          const uint32_t *slots)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->npus = npus; e->links = links; e->chunks = chunks; e->words = (chunks + 63) / 64; e->lanes = lanes;
    e->rule = (enum rule)rule; e->seed = mix(seed + 0x9e3779b97f4a7c15u); e->wanted = wanted;
    e->source = source; e->destination = destination; e->first_in = first_in; e->first_out = first_out;
    e->out_link = out_link; e->duration = duration;
    e->first_port = first_port; e->port = port; e->ports = ports; e->slots = slots;
    e->log = calloc(npus, sizeof *e->log);
    e->held = calloc(npus, sizeof *e->held);
    e->claimed = calloc((size_t)npus * e->words, sizeof *e->claimed);
    e->pointer = calloc(links + 1, sizeof *e->pointer);
    e->busy = calloc(links + 1, 1);
    e->listed = calloc(links + 1, 1);
    e->grew = calloc(npus, 1);
    e->grown = malloc(npus * sizeof *e->grown);
    e->lane = calloc(lanes + 1, sizeof *e->lane);
    e->lane_of = malloc((links + 1) * sizeof *e->lane_of);
    e->ready = malloc((links + 1) * sizeof *e->ready);
    e->sorted = malloc((links + 1) * sizeof *e->sorted);
    e->choice = malloc((links + 1) * sizeof *e->choice);
    bool whole = e->log && e->held && e->claimed && e->pointer && e->busy && e->listed && e->grew && e->grown && e->lane && e->lane_of && e->ready &&
                 e->sorted && e->choice;
    if (whole && first_port) {
        e->taken = calloc((size_t)ports + 1, sizeof *e->taken);
        e->first_user = calloc((size_t)ports + 2, sizeof *e->first_user);
        e->user = malloc(((size_t)first_port[links] + 1) * sizeof *e->user);
        whole = e->taken && e->first_user && e->user;
        for (uint32_t i = 0; whole && i < first_port[links]; i++) e->first_user[port[i] + 2]++;
        for (uint32_t p = 0; whole && p < ports; p++) e->first_user[p + 2] += e->first_user[p + 1];
        for (uint32_t l = 0; whole && l < links; l++)
            for (uint32_t i = first_port[l]; i < first_port[l + 1]; i++) e->user[e->first_user[port[i] + 1]++] = l;
    }
    for (uint32_t i = 0; whole && i < lanes; i++) e->lane[i].duration = lane_duration[i];
    for (uint32_t i = 0; whole && i < links; i++) { e->lane_of[i] = lane_of[i]; e->lane[lane_of[i]].capacity++; }
    for (uint32_t i = 0; whole && i < lanes; i++) {
        e->lane[i].flights = malloc((e->lane[i].capacity + 1) * sizeof *e->lane[i].flights);
        e->lane[i].ends = malloc((e->lane[i].capacity + 1) * sizeof *e->lane[i].ends);
        whole = e->lane[i].flights && e->lane[i].ends;
    }
    for (uint32_t n = 0; whole && n < npus; n++) whole = (e->log[n] = malloc((log_capacity[n] + 1) * sizeof(chunk_t))) != NULL;
    if (!whole) { NAME(engine_free)(e); return NULL; }
    for (uint32_t c = 0; c < chunks; c++) {
        uint32_t owner = chunk_owner[c];
        e->log[owner][e->held[owner]++] = (chunk_t)c;
        e->claimed[(size_t)owner * e->words + (c >> 6)] |= 1ull << (c & 63);
    }
    for (uint32_t link = 0; link < links; link++) list(e, link);
    return e;
}

/* Start every send that can start now; then advance to the next completion. Writes the sends that started and returns
 * their number; *now is when they did. *done is set when nothing is in flight any more. */
uint32_t NAME(engine_step)(struct engine *e, uint32_t *chunk, uint32_t *link, int64_t *now, int *done)
{
    *now = e->now;
    sort_ready(e);
    uint32_t ready = e->ready_count, count = 0;
    e->instant++;
    if (e->first_port) decide_with_ports(e, ready);
    else decide(e, 0, ready);
    e->ready_count = 0;
    for (uint32_t i = 0; i < ready; i++) {
        if (e->choice[i] < 0) continue;
        uint32_t l = e->sorted[i];
        struct lane *lane = &e->lane[e->lane_of[l]];
        uint32_t tail = lane->head + lane->count++;
        if (tail >= lane->capacity) tail -= lane->capacity;
        lane->flights[tail] = (struct flight){ l, (chunk_t)e->choice[i] };
        lane->ends[tail] = e->now + lane->duration;
        e->busy[l] = 1;
        chunk[count] = (uint32_t)e->choice[i];
        link[count++] = l;
    }
    e->flying += count;
    if (e->flying == 0) { *done = 1; return count; }
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < e->lanes; i++)
        if (e->lane[i].count && e->lane[i].ends[e->lane[i].head] < next) next = e->lane[i].ends[e->lane[i].head];
    e->now = next;
    for (uint32_t i = 0; i < e->lanes; i++) {
        struct lane *lane = &e->lane[i];
        while (lane->count && lane->ends[lane->head] == next) {
            struct flight flight = lane->flights[lane->head];
            if (++lane->head == lane->capacity) lane->head = 0;
            lane->count--;
            e->flying--;
            uint32_t to = e->destination[flight.link];
            e->log[to][e->held[to]++] = flight.chunk;
            e->busy[flight.link] = 0;
            list(e, flight.link);
            if (e->first_port) release(e, flight.link);
            note_growth(e, to);
        }
    }
    wake_all(e);
    *done = 0;
    return count;
}

/* Run to the end, at most `capacity` sends into the arrays. Returns the number of sends, or capacity + 1 if more. */
uint64_t NAME(engine_run)(struct engine *e, uint64_t capacity, uint32_t *chunk, uint32_t *link, int64_t *start)
{
    uint64_t sent = 0;
    for (int done = 0; !done;) {
        if (sent + e->links > capacity) return capacity + 1;
        int64_t now;
        uint32_t count = NAME(engine_step)(e, chunk + sent, link + sent, &now, &done);
        for (uint32_t i = 0; i < count; i++) start[sent + i] = now;
        sent += count;
    }
    return sent;
}
