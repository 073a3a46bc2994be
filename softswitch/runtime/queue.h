/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * One egress queue: a list of packets with limits in packets and bytes, and its statistics.
 */
#ifndef SOFTSWITCH_QUEUE_H
#define SOFTSWITCH_QUEUE_H

#include "engine.h"

#define QUEUE_DEFAULT_PACKETS 256

struct queue {
    struct ss_packet *head, *tail;
    struct ss_queue_settings limit;
    struct ss_queue_stats stats;       /* depth_packets and depth_bytes are the queue's own depth */
};

/* Bytes that a waiting packet counts for: its frame as it came, or what a truncation leaves of it. */
static inline uint32_t queue_bytes_of(const struct ss_packet *packet)
{
    return packet->length < packet->truncate_to ? packet->length : packet->truncate_to;
}

/* Delay to histogram bucket: 0 below 16 us, then four to an octave, split evenly; the last one is open. A prefix match
 * on the delay in microseconds, as the P4 program's delay_bucket table does it. */
static inline uint32_t queue_delay_bucket(uint64_t us)
{
    if (us < 16)
        return 0;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(us);
    uint32_t bucket = 1 + (octave - 4) * 4 + (uint32_t)(us >> (octave - 2) & 3);
    return bucket < 64 ? bucket : 63;
}

static inline bool queue_push(struct queue *queue, struct ss_packet *packet)
{
    struct ss_queue_stats *stats = &queue->stats;
    uint32_t bytes = queue_bytes_of(packet);
    if ((queue->limit.packets && stats->depth_packets >= queue->limit.packets)
        || (queue->limit.bytes && stats->depth_bytes + bytes > queue->limit.bytes)) {
        stats->tail_drops_packets++;
        stats->tail_drops_bytes += bytes;
        return false;
    }
    packet->next = NULL;
    if (queue->tail)
        queue->tail->next = packet;
    else
        queue->head = packet;
    queue->tail = packet;
    stats->enqueued_packets++;
    stats->enqueued_bytes += bytes;
    stats->depth_packets++;
    stats->depth_bytes += bytes;
    if (stats->depth_packets > stats->max_depth_packets)
        stats->max_depth_packets = stats->depth_packets;
    if (stats->depth_bytes > stats->max_depth_bytes)
        stats->max_depth_bytes = stats->depth_bytes;
    return true;
}

static inline struct ss_packet *queue_pop(struct queue *queue)
{
    struct ss_packet *packet = queue->head;
    queue->head = packet->next;
    if (!queue->head)
        queue->tail = NULL;
    queue->stats.depth_packets--;
    queue->stats.depth_bytes -= queue_bytes_of(packet);
    return packet;
}

#endif
