/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program alone: ingress, egress and deparser on frames in memory, with neither ports nor queues.
 */
#include "tester.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEADROOM 256
#define SLOT_BYTES 2048
#define BATCH 64
#define CACHE_LINE 64
#define HEADERS 128                    /* bytes of a frame that a program may read or write; no payload is looked at */
#define ASK_AHEAD 4                    /* headers that are asked for early, as the engine does with what it received */

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void ask(const struct ss_packet *packet)
{
    __builtin_prefetch(packet->data);
    __builtin_prefetch(packet->data + CACHE_LINE);
}

static void prepare(struct ss_packet *packet, const uint8_t *headers, uint32_t bytes, uint32_t port)
{
    packet->data = packet->buffer + HEADROOM;
    memcpy(packet->data, headers, bytes < HEADERS ? bytes : HEADERS);
    packet->length = packet->std.packet_length = bytes;
    packet->truncate_to = SS_NO_TRUNCATE;
    packet->std.ingress_port = port;
    packet->std.instance_type = SS_NORMAL;
}

double pipeline_alone(const struct ss_program *program, struct ss_state *state, const uint8_t *frames,
                      uint32_t frame_count, uint32_t frame_bytes, uint32_t port, uint32_t packets, uint64_t *forwarded)
{
    struct ss_packet slots[BATCH] = {0};
    size_t phv_bytes = (program->phv_bytes + 63) / 64 * 64 + 64;
    uint8_t *memory = aligned_alloc(64, (size_t)BATCH * SLOT_BYTES + phv_bytes);
    uint8_t *headers = aligned_alloc(64, (size_t)frame_count * HEADERS);   /* side by side: payloads fill no cache */
    uint64_t spent = 0, left = 0;
    if (!memory || !headers || frame_bytes + HEADROOM > SLOT_BYTES)
        return -1;
    for (uint32_t i = 0; i < frame_count; i++)
        memcpy(headers + (size_t)i * HEADERS, frames + (size_t)i * frame_bytes, frame_bytes < HEADERS ? frame_bytes : HEADERS);
    for (uint32_t i = 0; i < BATCH; i++) {
        slots[i].buffer = memory + (size_t)i * SLOT_BYTES;
        slots[i].capacity = SLOT_BYTES;
        slots[i].phv = memory + (size_t)BATCH * SLOT_BYTES;   /* one for all: see pool_warm */
        memcpy(slots[i].buffer + HEADROOM, frames, frame_bytes);
    }
    for (uint32_t n = 0; n < packets; n += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++)
            prepare(&slots[i], headers + (size_t)((n + i) % frame_count) * HEADERS, frame_bytes, port);
        uint64_t start = cpu_ns();
        for (uint32_t i = 0; i < ASK_AHEAD; i++)
            ask(&slots[i]);
        for (uint32_t i = 0; i < BATCH; i++) {
            struct ss_packet *packet = &slots[i];
            if (i + ASK_AHEAD < BATCH)
                ask(&slots[i + ASK_AHEAD]);
            program->ingress(state, packet);
            if (packet->std.egress_spec == SS_DROP_PORT)
                continue;
            packet->std.egress_port = packet->std.egress_spec;
            program->egress(state, packet);
            if (packet->std.egress_spec == SS_DROP_PORT)
                continue;
            program->deparse(state, packet);
            left++;
        }
        spent += cpu_ns() - start;
    }
    free(headers);
    free(memory);
    *forwarded = left;
    return (double)spent / packets;
}
