/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Carry the state of one session over to another, under another program: what a committed pipeline keeps.
 *
 * Entities travel as their messages, a slice at a time, so that identifiers decide what is the same object and neither
 * switch is locked for long.
 */
#include "p4runtime_session.h"

#include <stdio.h>

struct carry {
    struct p4rt_session *from, *to;
    struct wire_writer slice;      /* entity fields (number 1) of one slice */
    int type;                      /* how they are applied */
};

/* Apply the slice to the other session and empty it. */
static int deliver(struct carry *c)
{
    struct wire_reader in = wire_open((struct wire_span){ c->slice.data, c->slice.length });
    struct wire_field field;
    int code = c->slice.failed ? p4rt_reject(c->to, P4RT_RESOURCE_EXHAUSTED, "out of memory") : P4RT_OK;
    c->to->now_ns = ss_now(c->to->sw);
    ss_lock(c->to->sw);
    while (!code && wire_next(&in, &field)) {
        struct wire_span content = { 0 };
        bool malformed;
        uint32_t kind = p4rt_entity_kind(field.bytes, &content, &malformed);
        code = p4rt_apply(c->to, c->type, kind, content, field.bytes);
    }
    ss_unlock(c->to->sw);
    c->slice.length = 0;
    return code;
}

static size_t begin(struct carry *c)
{
    return wire_begin(&c->slice, 1);
}

static void end(struct carry *c, size_t start)
{
    wire_end(&c->slice, start);
}

/* The entries that a program brings along and that a controller may change: they make way. */
static int clear_entries(struct carry *c, const struct p4rt_table *table)
{
    uint64_t cursor = 0;
    struct ss_entry entry;
    bool more = !table->is_const;
    int code = P4RT_OK;
    c->type = P4RT_DELETE;
    while (more && !code) {
        ss_lock(c->to->sw);
        for (uint32_t n = 0; n < P4RT_SLICE && (more = ss_table_next(p4rt_table_object(c->to, table), &cursor, &entry)); n++)
            if (!entry.is_const) {
                size_t start = begin(c);
                p4rt_encode_entry(c->to, &c->slice, P4RT_TABLE, table, &entry, 0);
                end(c, start);
            }
        ss_unlock(c->to->sw);
        code = deliver(c);
    }
    return code;
}

static int carry_entries(struct carry *c, const struct p4rt_table *table)
{
    uint64_t cursor = 0;
    struct ss_entry entry;
    bool more = !table->is_const;
    int code = P4RT_OK;
    c->type = P4RT_INSERT;
    while (more && !code) {
        ss_lock(c->from->sw);
        for (uint32_t n = 0; n < P4RT_SLICE && (more = ss_table_next(p4rt_table_object(c->from, table), &cursor, &entry)); n++)
            if (!entry.is_const) {
                size_t start = begin(c);
                p4rt_encode_entry(c->from, &c->slice, P4RT_TABLE, table, &entry, P4RT_WITH_COUNTER | P4RT_WITH_METER);
                end(c, start);
            }
        ss_unlock(c->from->sw);
        code = deliver(c);
    }
    return code;
}

static int carry_default(struct carry *c, const struct p4rt_table *table)
{
    struct ss_entry entry = { 0 };
    bool is_own = true;
    c->type = P4RT_MODIFY;
    ss_lock(c->from->sw);
    if (ss_table_get_default(p4rt_table_object(c->from, table), &entry, &is_own) == SS_OK && !is_own) {
        size_t start = begin(c);
        p4rt_encode_default(c->from, &c->slice, P4RT_TABLE, table, P4RT_WITH_COUNTER, false);
        end(c, start);
    }
    ss_unlock(c->from->sw);
    return deliver(c);
}

static int carry_profile(struct carry *c, const struct p4rt_profile *profile)
{
    struct ss_profile *object = c->from->objects->profiles[profile->index];
    if (c->from->selectors[profile - c->from->schema->profiles].action_sets)
        return P4RT_OK;  /* they come with their entries */
    int code = P4RT_OK;
    c->type = P4RT_INSERT;
    for (int groups = 0; groups < 2 && !code; groups++) {
        uint64_t cursor = 0;
        uint32_t id;
        struct ss_action_value value;
        bool more = !groups || profile->has_selector;
        while (more && !code) {
            ss_lock(c->from->sw);
            for (uint32_t n = 0; n < P4RT_SLICE && (more = groups ? ss_group_next(object, &cursor, &id)
                                                                  : ss_member_next(object, &cursor, &id, &value)); n++) {
                size_t start = begin(c);
                if (groups)
                    p4rt_encode_group(c->from, &c->slice, profile, id);
                else
                    p4rt_encode_member(c->from, &c->slice, profile, id, &value);
                end(c, start);
            }
            ss_unlock(c->from->sw);
            code = deliver(c);
        }
    }
    return code;
}

/* Counters, meters and registers: cells that hold something. Arrays that are gone are no state worth refusing for. */
static int carry_arrays(struct carry *c)
{
    const struct p4rt_schema *schema = c->from->schema;
    int code = P4RT_OK;
    c->type = P4RT_MODIFY;
    for (uint32_t i = 0; i < schema->counter_count && !code; i++) {
        const struct p4rt_array *counter = &schema->counters[i], *other = p4rt_find_counter(c->to->schema, counter->id);
        const struct ss_count *cells = c->from->objects->counters[counter->index].cells;
        for (uint32_t cell = 0; other && cell < counter->size && cell < other->size && !code; cell++) {
            if (cells[cell].packets || cells[cell].bytes) {
                size_t start = begin(c);
                p4rt_encode_counter(c->from, &c->slice, counter, cell);
                end(c, start);
                code = deliver(c);
            }
        }
    }
    for (uint32_t i = 0; i < schema->meter_count && !code; i++) {
        const struct p4rt_array *meter = &schema->meters[i], *other = p4rt_find_meter(c->to->schema, meter->id);
        for (uint32_t cell = 0; other && cell < meter->size && cell < other->size && !code; cell++) {
            if (c->from->objects->meters[meter->index].rates[cell].configured) {
                size_t start = begin(c);
                p4rt_encode_meter(c->from, &c->slice, meter, cell);
                end(c, start);
                code = deliver(c);
            }
        }
    }
    for (uint32_t i = 0; i < schema->register_count && !code; i++) {
        const struct p4rt_register *reg = &schema->registers[i], *other = p4rt_find_register(c->to->schema, reg->id);
        if (!other || other->bits != reg->bits || other->tag != reg->tag ||
            c->from->objects->registers[reg->index].live_depth)
            continue;
        uint32_t bytes = c->from->objects->registers[reg->index].bytes;
        for (uint32_t cell = 0; cell < reg->size && cell < other->size && !code; cell++) {
            bool holds = false;
            ss_lock(c->from->sw);
            memset(c->from->cell, 0, bytes);
            ss_register_read(c->from->state, reg->index, cell, c->from->cell);
            for (uint32_t b = 0; b < bytes; b++)
                holds |= c->from->cell[b] != 0;
            if (holds) {
                size_t start = begin(c);
                p4rt_encode_register(c->from, &c->slice, reg, cell);
                end(c, start);
            }
            ss_unlock(c->from->sw);
            if (holds)
                code = deliver(c);
        }
    }
    for (uint32_t i = 0; i < schema->value_set_count && !code; i++) {
        const uint8_t *value, *mask;
        ss_lock(c->from->sw);
        if (ss_value_set_read(c->from->objects->value_sets[schema->value_sets[i].index], 0, &value, &mask)) {
            size_t start = begin(c);
            p4rt_encode_value_set(c->from, &c->slice, &schema->value_sets[i]);
            end(c, start);
        }
        ss_unlock(c->from->sw);
        code = deliver(c);
    }
    return code;
}

int p4rt_copy(struct p4rt_session *from, struct p4rt_session *to, char *message, uint32_t message_bytes)
{
    struct carry c = { .from = from, .to = to };
    int code = P4RT_OK;
    for (uint32_t i = 0; i < to->schema->table_count && !code; i++)
        code = clear_entries(&c, &to->schema->tables[i]);
    for (uint32_t i = 0; i < from->schema->profile_count && !code; i++)
        code = carry_profile(&c, &from->schema->profiles[i]);
    for (uint32_t i = 0; i < from->schema->table_count && !code; i++) {
        code = carry_entries(&c, &from->schema->tables[i]);
        if (!code)
            code = carry_default(&c, &from->schema->tables[i]);
    }
    if (!code)
        code = carry_arrays(&c);
    wire_free(&c.slice);
    if (code)
        snprintf(message, message_bytes, "%s", to->message);
    return code;
}
