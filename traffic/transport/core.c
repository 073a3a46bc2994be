/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define GRADIENT_BYTES 32
#define GRADIENT_VERSION 1
#define KEY_AT 4
#define KEY_BYTES 12
#define TYPE_DATA 1
#define TYPE_TRIMMED 2
#define TYPE_LAST_KNOWN 8
#define FLAG_RETRANSMISSION 0x01
#define FLAG_PROTECTED 0x04
#define CONGESTION_EXPERIENCED 3
#define MAX_BURST 16
#define SENT_RING 4096
#define CATCH_UP 2              /* how many times its rate it sends meanwhile, and a quantum of that without a wait, which
                                 * may take long on a busy host; what exceeds the line waits in the host */

static uint32_t big_16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t big_32(const uint8_t *at)
{
    return big_16(at) << 16 | big_16(at + 2);
}

static void put_big_32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static int bit(const uint64_t *map, uint32_t index)
{
    return map[index >> 6] >> (index & 63) & 1;
}

static void set_bit(uint64_t *map, uint32_t index)
{
    map[index >> 6] |= UINT64_C(1) << (index & 63);
}

static void clear_bit(uint64_t *map, uint32_t index)
{
    map[index >> 6] &= ~(UINT64_C(1) << (index & 63));
}

/* ---- table of messages ---- */

static uint32_t slot_of(const struct core *core, const uint8_t *key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < KEY_BYTES; i++)
        hash = (hash ^ key[i]) * UINT64_C(1099511628211);
    return (uint32_t)(hash ^ hash >> 32) & (core->capacity - 1);
}

/* The slot that holds the key, or the free one where it would go. */
static struct inbound **find(const struct core *core, const uint8_t *key)
{
    uint32_t slot = slot_of(core, key);
    while (core->slots[slot] && memcmp(core->slots[slot]->key, key, KEY_BYTES))
        slot = (slot + 1) & (core->capacity - 1);
    return &core->slots[slot];
}

static int resize(struct core *core, uint32_t capacity)
{
    struct inbound **old = core->slots, **touched = realloc(core->touched, capacity * sizeof *touched);
    if (!touched)
        return -1;
    core->touched = touched;
    core->slots = calloc(capacity, sizeof *core->slots);
    if (!core->slots) {
        core->slots = old;
        return -1;
    }
    uint32_t before = core->capacity;
    core->capacity = capacity;
    for (uint32_t i = 0; i < before; i++)
        if (old[i])
            *find(core, old[i]->key) = old[i];
    free(old);
    return 0;
}

struct core *core_new(void)
{
    struct core *core = calloc(1, sizeof *core);
    if (core && resize(core, 64)) {
        core_free(core);
        return NULL;
    }
    return core;
}

void core_free(struct core *core)
{
    if (!core)
        return;
    free(core->slots);
    free(core->touched);
    free(core);
}

int core_add(struct core *core, struct inbound *message)
{
    if (*find(core, message->key))
        return -1;
    if ((core->size + 1) * 2 > core->capacity && resize(core, core->capacity * 2))
        return -1;
    *find(core, message->key) = message;
    core->size++;
    return 0;
}

int core_remove(struct core *core, struct inbound *message)
{
    struct inbound **found = find(core, message->key);
    if (*found != message)
        return -1;
    *found = NULL;
    core->size--;
    for (uint32_t slot = (uint32_t)(found - core->slots); ;) {     /* close the gap in the probe chain */
        slot = (slot + 1) & (core->capacity - 1);
        struct inbound *moved = core->slots[slot];
        if (!moved)
            break;
        core->slots[slot] = NULL;
        *find(core, moved->key) = moved;
    }
    for (uint32_t i = 0; i < core->touched_count; i++)
        if (core->touched[i] == message) {
            core->touched[i] = core->touched[--core->touched_count];
            break;
        }
    message->touched = 0;
    return 0;
}

void core_quiet(struct core *core)
{
    for (uint32_t i = 0; i < core->touched_count; i++)
        core->touched[i]->touched = 0;
    core->touched_count = 0;
}

/* ---- arrival ---- */

static void take_values(struct inbound *message, const uint8_t *frame, uint32_t index, uint32_t count)
{
    if (bit(message->arrived, index)) {
        message->duplicates++;
        return;
    }
    memcpy(message->values + (uint64_t)index * message->per_packet * message->value_bytes, frame + GRADIENT_BYTES,
           (size_t)count * message->value_bytes);
    set_bit(message->arrived, index);
    message->arrived_packets++;
    message->arrived_values += count;
    int protected = (frame[1] & FLAG_PROTECTED) != 0;
    message->arrived_protected += protected;
    if (bit(message->lost, index)) {
        clear_bit(message->lost, index);
        message->lost_packets--;
        message->lost_values -= count;
        message->lost_protected -= protected;
    }
}

static void take_trimmed(struct inbound *message, const uint8_t *frame, uint32_t index, uint32_t count)
{
    message->trimmed++;
    if (bit(message->arrived, index) || bit(message->lost, index))
        return;
    set_bit(message->lost, index);
    message->lost_packets++;
    message->lost_values += count;
    message->lost_protected += (frame[1] & FLAG_PROTECTED) != 0;
}

static void note_sequence(struct inbound *message, uint32_t sequence, uint64_t now)
{
    if (!message->seen++)
        message->first_ns = now;
    message->latest = sequence;
    message->latest_ns = now;
    if (sequence >= message->highest) {
        message->highest = sequence + 1;
        message->highest_ns = now;
    } else if (message->highest - 1 - sequence > message->reordering) {
        message->reordering = message->highest - 1 - sequence;
    }
}

int core_accept(struct core *core, const uint8_t *frame, uint32_t length, uint8_t ecn, uint64_t source, uint64_t now)
{
    core->packets++;
    uint32_t type = length ? frame[0] & 15 : 0;
    if (length < GRADIENT_BYTES || frame[0] >> 4 != GRADIENT_VERSION || !type || type > TYPE_LAST_KNOWN) {
        core->malformed++;
        return IGNORED;
    }
    if (type > TYPE_TRIMMED)
        return CONTROL;
    struct inbound *message = *find(core, frame + KEY_AT);
    if (!message)
        return UNKNOWN;
    if (message->source && message->source != source) {
        core->foreign++;
        return IGNORED;
    }
    uint32_t offset = big_32(frame + 16), count = big_16(frame + 20), index = offset / message->per_packet;
    uint32_t left = offset < message->value_count ? message->value_count - offset : 0;
    uint32_t expected = left < message->per_packet ? left : message->per_packet;
    uint32_t bytes = GRADIENT_BYTES + (type == TYPE_DATA ? count * message->value_bytes : 0);
    if (offset % message->per_packet || !count || count != expected || length != bytes ||
        frame[2] != message->data_type) {
        core->malformed++;
        return IGNORED;
    }
    uint32_t sequence = big_32(frame + 28) - message->first_sequence;
    if (sequence >= message->sequence_limit) {
        message->stale++;
        return IGNORED;
    }
    if (!message->touched) {
        message->touched = 1;
        core->touched[core->touched_count++] = message;
    }
    note_sequence(message, sequence, now);
    message->marked += (ecn & 3) == CONGESTION_EXPERIENCED;
    if (type == TYPE_DATA && bit(message->arrived, index) && frame[1] & FLAG_RETRANSMISSION)
        message->spurious++;
    if (message->closed)
        message->late++;
    else if (type == TYPE_DATA)
        take_values(message, frame, index, count);
    else
        take_trimmed(message, frame, index, count);
    return TAKEN;
}

void inbound_blank(struct inbound *message, const uint8_t *blank, uint32_t blank_packets)
{
    if (message->closed)
        return;
    for (uint32_t index = 0; index < blank_packets && index < message->packets; index++) {
        if (!(blank[index >> 3] >> (index & 7) & 1) || bit(message->arrived, index))
            continue;
        uint32_t first = index * message->per_packet, left = message->value_count - first;
        uint32_t count = left < message->per_packet ? left : message->per_packet;
        memset(message->values + (uint64_t)first * message->value_bytes, 0, (size_t)count * message->value_bytes);
        set_bit(message->arrived, index);
        message->arrived_packets++;
        message->arrived_values += count;
    }
}

/* ---- departure ---- */

uint32_t outbound_next(struct outbound *message, struct pacer *pacer, uint64_t now, uint32_t *indices)
{
    uint32_t burst = pacer->burst < MAX_BURST ? pacer->burst : MAX_BURST, count = 0;
    double bits = 0, ahead = pacer->ahead * pacer->rate;
    double quantum_bits = (ahead < pacer->line_rate ? ahead : pacer->line_rate) * pacer->quantum_ns / 1e9;
    while (count < burst) {
        int again = message->again_next < message->again_count;
        if (!again && message->fresh_next == message->fresh_count)
            break;
        uint32_t index = again ? message->again[message->again_next] : message->fresh[message->fresh_next];
        uint32_t bytes = index == message->packets - 1 ? message->last_bytes : message->payload_bytes;
        double size = 8.0 * (pacer->overhead + GRADIENT_BYTES + bytes);
        if (count && bits + size > quantum_bits)
            break;
        if (again)
            message->again_next++;
        else
            message->fresh_next++;
        uint8_t *header = message->headers + (uint64_t)index * GRADIENT_BYTES;
        if (again)
            header[1] |= FLAG_RETRANSMISSION;
        put_big_32(header + 28, message->first_sequence + message->sent);
        message->sent_ns[message->sent % SENT_RING] = now;
        message->sent++;
        message->sent_bytes += GRADIENT_BYTES + bytes;
        bits += size;
        indices[count++] = index;
        if (bytes != message->payload_bytes)
            break;
    }
    double rate = pacer->rate < pacer->line_rate ? pacer->rate : pacer->line_rate;
    double forgiven = now - pacer->arrears_ns;
    pacer->behind_ns = (pacer->behind_ns > forgiven ? pacer->behind_ns : forgiven) + bits * 1e9 / rate;
    double saved = now - pacer->quantum_ns;
    pacer->catch_up_ns = (pacer->catch_up_ns > saved ? pacer->catch_up_ns : saved) + bits * 1e9 / (CATCH_UP * rate);
    pacer->due_ns = pacer->behind_ns > pacer->catch_up_ns ? pacer->behind_ns : pacer->catch_up_ns;
    return count;
}

void outbound_copy(const struct outbound *message, const uint32_t *indices, uint32_t count, uint8_t *frames,
                   uint32_t stride, uint32_t *lengths)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = indices[i];
        uint32_t bytes = index == message->packets - 1 ? message->last_bytes : message->payload_bytes;
        uint8_t *frame = frames + (uint64_t)i * stride;
        memcpy(frame, message->headers + (uint64_t)index * GRADIENT_BYTES, GRADIENT_BYTES);
        memcpy(frame + GRADIENT_BYTES, message->values + (uint64_t)index * message->payload_bytes, bytes);
        lengths[i] = GRADIENT_BYTES + bytes;
    }
}
