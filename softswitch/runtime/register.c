/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Registers, from the control plane's side. */
#include "table_impl.h"

static struct ss_register *cell(struct ss_state *state, uint32_t number, uint32_t index)
{
    const struct ss_objects *objects = ss_objects_of(state);
    if (number >= objects->register_count || index >= objects->registers[number].size)
        return NULL;
    return &objects->registers[number];
}

enum ss_status ss_register_read(struct ss_state *state, uint32_t number, uint32_t index, uint8_t *out)
{
    const struct ss_register *reg = cell(state, number, index);
    if (!reg)
        return SS_INVALID;
    uint32_t size = ss_native_bytes(reg->bits);
    if (reg->live_depth) {
        const struct ss_engine_services *services = ss_services_of(state);
        uint64_t depth[SS_MAX_WORDS] = {0};
        depth[0] = services->queue_depth(services->engine, index >> reg->class_bits, index & ((1u << reg->class_bits) - 1));
        if (reg->bits < 64)
            depth[0] &= (1ull << reg->bits) - 1;
        ss_from_native(out, (const uint8_t *)depth, reg->bits <= 64 ? reg->bits : 64);
    } else {
        ss_from_native(out, reg->cells + (size_t)index * size, reg->bits);
    }
    return SS_OK;
}

enum ss_status ss_register_write(struct ss_state *state, uint32_t number, uint32_t index, const uint8_t *value)
{
    struct ss_register *reg = cell(state, number, index);
    if (!reg || (reg->bits % 8 && value[0] >> (reg->bits % 8)))
        return SS_INVALID;
    uint32_t size = ss_native_bytes(reg->bits);
    if (!reg->live_depth)
        ss_to_native(reg->cells + (size_t)index * size, value, reg->bits);
    return SS_OK;
}

enum ss_status ss_register_set_live_depth(struct ss_state *state, uint32_t number, uint32_t class_bits)
{
    struct ss_register *reg = cell(state, number, 0);
    if (!reg || class_bits > 31 || reg->bits > 64)
        return SS_INVALID;
    reg->class_bits = class_bits;
    reg->live_depth = true;
    return SS_OK;
}
