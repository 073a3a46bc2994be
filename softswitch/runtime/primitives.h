/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What compiled primitives call. */
#ifndef SOFTSWITCH_PRIMITIVES_H
#define SOFTSWITCH_PRIMITIVES_H

#include "table_impl.h"

static inline uint32_t ss_drop_port(const struct ss_engine_services *services)
{
    return services->drop_port ? services->drop_port : SS_DROP_PORT;
}

static inline void ss_count(struct ss_counter *counter, uint64_t size, uint64_t index, uint32_t bytes)
{
    if (index < size) {
        counter->cells[index].packets++;
        counter->cells[index].bytes += bytes;
    }
}

/* `a && b`, of fields that may lie side by side: gcc would test both by one load, which waits until the narrower stores
 * that wrote them have left the store buffer. */
#define SS_AND(a, b) ({ bool left_ = (a); left_ && (b); })

/* A cell of a register of at most 64 bits; the live depth of a queue where the control plane declared it so. */
static inline uint64_t ss_register_get(struct ss_state *state, const struct ss_register *reg, uint64_t index, uint32_t bits)
{
    if (__builtin_expect(reg->live_depth, 0)) {
        const struct ss_engine_services *services = ss_services_of(state);
        uint32_t port = (uint32_t)index >> reg->class_bits, class = (uint32_t)index & ((1u << reg->class_bits) - 1);
        return services->queue_depth(services->engine, port, class) & (~0ull >> (64 - bits));
    }
    return bits <= 8 ? reg->cells[index] : bits <= 16 ? ((const uint16_t *)reg->cells)[index]
         : bits <= 32 ? ((const uint32_t *)reg->cells)[index] : ((const uint64_t *)reg->cells)[index];
}

static inline uint64_t ss_register_value(struct ss_state *state, uint32_t number, uint64_t index)
{
    const struct ss_register *reg = &ss_objects_of(state)->registers[number];
    return index < reg->size ? ss_register_get(state, reg, index, reg->bits) : 0;
}

/* Uniform between two bounds, both included. */
static inline uint64_t ss_random_between(const struct ss_engine_services *services, uint64_t low, uint64_t high)
{
    uint64_t span = high - low + 1;
    if (span - 1 <= UINT32_MAX)
        return low + ((uint64_t)services->random(services->engine) * span >> 32);
    uint64_t word = (uint64_t)services->random(services->engine) << 32 | services->random(services->engine);
    return span ? low + (uint64_t)((ss_u128)word * span >> 64) : word;
}

/* hash modulo a size that the packet gives; a size of 0 counts as 1. */
static inline uint64_t ss_within(uint64_t hash, uint64_t size) { return size ? hash % size : 0; }

/* Make a frame of `size` bytes of headers and the payload, and return where the headers go: in front of the payload,
 * which moves only when the headroom is too small. NULL when the buffer is too small. */
static inline uint8_t *ss_make_room(struct ss_packet *p, uint32_t size)
{
    uint32_t left = p->length - p->payload;
    uint8_t *payload = p->data + p->payload;
    if (__builtin_expect((size_t)(payload - p->buffer) < size, 0)) {
        if ((uint64_t)size + left > p->capacity)
            return NULL;
        memmove(p->buffer + size, payload, left);
        payload = p->buffer + size;
    }
    p->data = payload - size;
    p->length = size + left;
    p->payload = size;
    return p->data;
}

static inline void ss_say(const struct ss_engine_services *services, const char *text)
{
    if (services->log)
        services->log(services->engine, text);
}

struct ss_number { ss_u128 value; int is_signed; };
/* Fill the `{}` of a format with numbers and log the line. */
void ss_log(const struct ss_engine_services *, const char *format, uint32_t count, const struct ss_number *);

#endif
