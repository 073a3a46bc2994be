/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Packs a reduce tree and a broadcast tree for every chunk, so that the busiest port is busy as short as possible; a
 * link that shares nothing is its own port.
 *
 * Multiplicative weights: a port's price grows exponentially with the time for which it is taken already, its slots
 * taken together, and a link costs what its ports cost. Each chunk
 * takes cheap trees, from the root, of a few, where both together are cheapest. Later sweeps take a chunk's trees
 * back and lay them again at steeper prices. Trees grow as Prim's do, an in-tree on the links turned round.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DOWN = 1, UP = 2, ROOTS_TRIED = 6 };
#define NO_LINK UINT32_MAX

struct edge { double price; uint32_t link; };

struct forest {
    uint32_t npus, links, ports;
    const uint32_t *first_port, *port;
    const double *share;               /* per port: of a slot in all its slots */
    const uint32_t *source, *destination, *first_in, *first_out, *out_link;
    const double *cost;
    const uint8_t *member;
    double *load, *port_price;         /* per port */
    double *price, depth_cost, mean;   /* per link */
    struct edge *heap;
    uint32_t *depth, *order;
    uint8_t *in_tree, *needed;
    uint64_t random;
};

static uint64_t draw(struct forest *f)
{
    f->random ^= f->random << 13; f->random ^= f->random >> 7; f->random ^= f->random << 17;
    return f->random;
}

static void push(struct edge *heap, uint32_t *count, struct edge edge)
{
    uint32_t i = (*count)++;
    for (; i && heap[(i - 1) / 2].price > edge.price; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = edge;
}

static struct edge pop(struct edge *heap, uint32_t *count)
{
    struct edge top = heap[0], last = heap[--*count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < *count; i = child) {
        if (child + 1 < *count && heap[child + 1].price < heap[child].price) child++;
        if (heap[child].price >= last.price) break;
        heap[i] = heap[child];
    }
    if (*count) heap[i] = last;
    return top;
}

/* Grow a tree; tree[n]: the link that joins n to it. Returns its price, infinite if members are out of reach. */
static double grow(struct forest *f, uint32_t root, bool up, uint32_t *tree)
{
    uint32_t count = 0, grown = 0;
    double price = 0;
    memset(f->in_tree, 0, f->npus);
    for (uint32_t n = 0; n < f->npus; n++) tree[n] = NO_LINK;
    f->in_tree[root] = 1;
    f->depth[root] = 0;
    for (uint32_t n = root;;) {
        uint32_t first = up ? f->first_in[n] : f->first_out[n], last = up ? f->first_in[n + 1] : f->first_out[n + 1];
        for (uint32_t i = first; i < last; i++) {
            uint32_t link = up ? i : f->out_link[i], other = up ? f->source[link] : f->destination[link];
            if (f->in_tree[other]) continue;
            double jitter = 1 + 1e-3 * (double)(draw(f) & 1023) / 1024;
            push(f->heap, &count, (struct edge){ f->price[link] * jitter + f->depth_cost * f->mean * f->depth[n], link });
        }
        uint32_t link = NO_LINK;
        while (count) {
            link = pop(f->heap, &count).link;
            n = up ? f->source[link] : f->destination[link];
            if (!f->in_tree[n]) break;
            link = NO_LINK;
        }
        if (link == NO_LINK) break;
        f->in_tree[n] = 1;
        f->depth[n] = f->depth[up ? f->destination[link] : f->source[link]] + 1;
        tree[n] = link;
        f->order[grown++] = n;
    }
    memcpy(f->needed, f->member, f->npus); /* whoever only forwards stays where it leads to a member */
    while (grown--) {
        uint32_t n = f->order[grown], link = tree[n];
        if (!f->needed[n]) { tree[n] = NO_LINK; continue; }
        f->needed[up ? f->destination[link] : f->source[link]] = 1;
        price += f->price[link];
    }
    for (uint32_t n = 0; n < f->npus; n++)
        if (f->member[n] && !f->in_tree[n]) return INFINITY;
    return price;
}

static void take(struct forest *f, const uint32_t *tree, double sign)
{
    for (uint32_t n = 0; n < f->npus; n++)
        if (tree[n] != NO_LINK)
            for (uint32_t i = f->first_port[tree[n]]; i < f->first_port[tree[n] + 1]; i++)
                f->load[f->port[i]] += sign * f->cost[tree[n]] * f->share[f->port[i]];
}

static double busiest(const struct forest *f)
{
    double most = 0;
    for (uint32_t p = 0; p < f->ports; p++)
        if (f->load[p] > most) most = f->load[p];
    return most;
}

/* cost: a link's time with a chunk. Links are numbered by destination. up, down: chunks x npus, the link by which an
 * NPU sends its sum on, or receives. Returns the time of the busiest port; negative without memory or way. */
double trees(uint32_t npus, uint32_t links, const uint32_t *source, const uint32_t *destination,
             const uint32_t *first_in, const uint32_t *first_out, const uint32_t *out_link, const double *cost,
             const uint32_t *first_port, const uint32_t *port, uint32_t ports, const double *share,
             const uint8_t *member, uint32_t chunks, uint32_t sweeps, int sides, const uint32_t *roots,
             uint32_t root_count, double depth_cost, uint64_t seed, uint32_t *root, uint32_t *up, uint32_t *down)
{
    double most = -1, best = INFINITY;
    struct forest forest = { .npus = npus, .links = links, .source = source, .destination = destination,
                             .first_in = first_in, .first_out = first_out, .out_link = out_link, .cost = cost,
                             .member = member, .depth_cost = depth_cost, .ports = ports,
                             .first_port = first_port, .port = port, .share = share };
    struct forest *f = &forest;
    size_t cells = (size_t)chunks * npus;
    f->random = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
    f->load = calloc((size_t)ports + 1, sizeof *f->load);
    f->port_price = malloc(((size_t)ports + 1) * sizeof *f->port_price);
    f->price = malloc(((size_t)links + 1) * sizeof *f->price);
    f->heap = malloc(((size_t)links + 1) * sizeof *f->heap);
    f->depth = malloc(((size_t)npus + 1) * sizeof *f->depth);
    f->order = malloc(((size_t)npus + 1) * sizeof *f->order);
    f->in_tree = malloc((size_t)npus + 1);
    f->needed = malloc((size_t)npus + 1);
    uint32_t *trial = malloc((2 * (size_t)npus + 1) * sizeof *trial);
    uint32_t *kept_root = malloc(((size_t)chunks + 1) * sizeof *kept_root);
    uint32_t *kept = malloc((2 * cells + 1) * sizeof *kept);
    if (!f->load || !f->port_price || !f->price || !f->heap || !f->depth || !f->order || !f->in_tree || !f->needed || !trial || !kept ||
        !kept_root)
        goto out;
    for (size_t i = 0; i < cells; i++) up[i] = down[i] = NO_LINK;
    double steepness = 4;
    for (uint32_t sweep = 0; sweep <= sweeps; sweep++) {
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            uint32_t *ups = up + (size_t)chunk * npus, *downs = down + (size_t)chunk * npus;
            if (sweep) { take(f, ups, -1); take(f, downs, -1); }
            double top = busiest(f), scale = top > 0 ? steepness / top : 0;
            f->mean = 0;
            for (uint32_t p = 0; p < ports; p++) f->port_price[p] = share[p] * exp((f->load[p] - top) * scale);
            for (uint32_t l = 0; l < links; l++) {
                f->price[l] = 0;
                for (uint32_t i = first_port[l]; i < first_port[l + 1]; i++)
                    f->price[l] += cost[l] * f->port_price[port[i]];
                f->mean += f->price[l] / links;
            }
            double cheapest = INFINITY;
            for (uint32_t i = 0; i < (root_count < ROOTS_TRIED ? root_count : ROOTS_TRIED); i++) {
                uint32_t r = root_count <= ROOTS_TRIED ? roots[i]
                             : i == 0 && sweep         ? root[chunk]
                                                       : roots[draw(f) % root_count];
                double price = 0;
                if (sides & UP) price += grow(f, r, true, trial);
                if (sides & DOWN) price += grow(f, r, false, trial + npus);
                if (!(price < cheapest)) continue;
                cheapest = price;
                root[chunk] = r;
                if (sides & UP) memcpy(ups, trial, npus * sizeof *ups);
                if (sides & DOWN) memcpy(downs, trial + npus, npus * sizeof *downs);
            }
            if (cheapest == INFINITY) { most = -2; goto out; }
            take(f, ups, 1);
            take(f, downs, 1);
        }
        most = busiest(f);
        if (most < best) {
            best = most;
            memcpy(kept_root, root, chunks * sizeof *root);
            memcpy(kept, up, cells * sizeof *up);
            memcpy(kept + cells, down, cells * sizeof *down);
        }
        if (steepness < 2.0 * chunks) steepness *= 1.7;
    }
    memcpy(root, kept_root, chunks * sizeof *root);
    memcpy(up, kept, cells * sizeof *up);
    memcpy(down, kept + cells, cells * sizeof *down);
    most = best;
out:
    free(f->load); free(f->port_price); free(f->price); free(f->heap); free(f->depth); free(f->order); free(f->in_tree); free(f->needed);
    free(trial); free(kept); free(kept_root);
    return most;
}
