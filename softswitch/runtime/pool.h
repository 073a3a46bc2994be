/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Packet memory, all of it taken before the first packet comes.
 *
 * Frames live in chunks of one area, which every AF_XDP port registers as its own memory: a frame that one port
 * received leaves through another without a copy. A packet (struct ss_packet and its parsed representation) is taken
 * when a frame is received and given back when the frame has left, last in, first out, so that a switch without queues
 * works on the same few cache lines; the chunk may stay with the kernel longer.
 */
#ifndef SOFTSWITCH_POOL_H
#define SOFTSWITCH_POOL_H

#include <string.h>

#include "program.h"

#define POOL_HEADROOM 256              /* XDP_PACKET_HEADROOM: where the kernel puts a received frame */
#define POOL_DEFAULT_CHUNKS 8192
#define POOL_DEFAULT_CHUNK_BYTES 2048
#define CACHE_LINE 64
#define POOL_RESERVE 64                /* chunks that queues leave to reception */

struct pool {
    uint8_t *area;
    size_t area_bytes;
    uint32_t chunk_bytes, chunk_shift, chunk_count;
    uint32_t *chunks;                  /* free, a stack of indices */
    uint32_t chunks_free;
    struct ss_packet *slots;
    uint32_t slot_count;
    struct ss_packet **packets;        /* free, a stack */
    uint32_t packets_free;
    uint8_t *phv_area;
    size_t phv_area_bytes, phv_bytes;
    void *warm_phv;                    /* the one that was used last, if its packet has left: see pool_warm */
};

bool pool_create(struct pool *, uint32_t chunks, uint32_t chunk_bytes);
void pool_destroy(struct pool *);
/* Give every packet a representation of this size; none may hold one that matters. */
bool pool_set_phv(struct pool *, size_t bytes);

static inline uint32_t pool_frame_limit(const struct pool *pool)
{
    return pool->chunk_bytes - POOL_HEADROOM;
}

static inline uint32_t pool_chunk_of(const struct pool *pool, const uint8_t *buffer)
{
    return (uint32_t)((size_t)(buffer - pool->area) >> pool->chunk_shift);
}

static inline uint8_t *pool_chunk_at(const struct pool *pool, uint32_t chunk)
{
    return pool->area + ((size_t)chunk << pool->chunk_shift);
}

static inline void pool_give_chunk(struct pool *pool, uint32_t chunk)
{
    pool->chunks[pool->chunks_free++] = chunk;
}

/* A packet around a chunk that is already the caller's. There is a packet for every chunk, so this cannot fail. */
static inline struct ss_packet *pool_wrap(struct pool *pool, uint32_t chunk)
{
    struct ss_packet *packet = pool->packets[--pool->packets_free];
    packet->next = NULL;
    packet->buffer = pool_chunk_at(pool, chunk);
    packet->capacity = pool->chunk_bytes;
    packet->data = packet->buffer + POOL_HEADROOM;
    packet->length = 0;
    packet->payload = 0;
    packet->truncate_to = SS_NO_TRUNCATE;
    packet->passes = 0;
    packet->clone_list = packet->resubmit_list = packet->recirculate_list = packet->digest_list = SS_NO_LIST;
    packet->prepared = false;
    return packet;
}

/* NULL when every chunk is in use. */
static inline struct ss_packet *pool_take(struct pool *pool)
{
    return pool->chunks_free ? pool_wrap(pool, pool->chunks[--pool->chunks_free]) : NULL;
}

/* Give a packet that enters the pipeline the representation of the one that left it last, which the caches hold, and
 * take it back when this one leaves: as many packets as a batch has work on one. */
static inline void pool_warm(struct pool *pool, struct ss_packet *packet)
{
    void *phv = packet->phv;
    packet->phv = pool->warm_phv;
    pool->warm_phv = phv;
}

/* Ask for a frame's headers, which another core wrote. */
static inline void pool_ask(const struct ss_packet *packet)
{
    __builtin_prefetch(packet->data);
    __builtin_prefetch(packet->data + CACHE_LINE);
}

/* The packet's chunk has gone elsewhere: give back the rest. */
static inline void pool_unwrap(struct pool *pool, struct ss_packet *packet)
{
    pool->packets[pool->packets_free++] = packet;
}

static inline void pool_give(struct pool *pool, struct ss_packet *packet)
{
    pool_give_chunk(pool, pool_chunk_of(pool, packet->buffer));
    pool_unwrap(pool, packet);
}

#endif
