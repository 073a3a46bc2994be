/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Write: counters, meters, registers and value sets, and the direct counters and meters of entries.
 */
#include "p4runtime_write.h"

int p4rt_decode_counter_data(struct p4rt_session *s, struct wire_span message, uint64_t *packets, uint64_t *bytes)
{
    *packets = *bytes = 0;
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    while (wire_next(&in, &field)) {
        if (field.key == WIRE_VARINT(1))
            *bytes = field.value;
        else if (field.key == WIRE_VARINT(2))
            *packets = field.value;
    }
    if (in.malformed)
        return p4rt_malformed(s, "counter data");
    if (*packets > INT64_MAX || *bytes > INT64_MAX)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a count is negative");
    return P4RT_OK;
}

int p4rt_decode_meter_config(struct p4rt_session *s, bool present, struct wire_span message, uint32_t type,
                             struct ss_meter_rates *rates)
{
    *rates = (struct ss_meter_rates){ .configured = present };
    if (!present)
        return P4RT_OK;
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint64_t excess = 0;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): rates->cir = field.value; break;
        case WIRE_VARINT(2): rates->cburst = field.value; break;
        case WIRE_VARINT(3): rates->pir = field.value; break;
        case WIRE_VARINT(4): rates->pburst = field.value; break;
        case WIRE_VARINT(5): excess = field.value; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "meter configuration");
    if ((rates->cir | rates->cburst | rates->pir | rates->pburst | excess) > INT64_MAX)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a meter's rates and bursts are not negative");
    if (excess)
        return p4rt_reject(s, type == 1 ? P4RT_UNIMPLEMENTED : P4RT_INVALID_ARGUMENT, "eburst: the meter has two rates");
    if (type && (rates->pir != rates->cir || rates->pburst != rates->cburst))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a single-rate meter has pir = cir and pburst = cburst");
    if (rates->pir < rates->cir)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the peak rate is below the committed rate");
    return P4RT_OK;
}

void p4rt_set_meter(struct p4rt_session *s, const struct p4rt_table *table, uint32_t slot,
                    const struct ss_meter_rates *rates)
{
    if (table->direct_meter >= 0)
        ss_meter_set(s->state, (uint32_t)table->direct_meter, slot, rates);
}

int p4rt_write_direct(struct p4rt_session *s, int type, struct wire_span message, bool is_meter)
{
    struct wire_span entry_span = { 0 }, data = { 0 };
    bool has_entry = false, has_data = false, has_counters = false;
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_BYTES(1): entry_span = field.bytes; has_entry = true; break;
        case WIRE_BYTES(2): data = field.bytes; has_data = true; break;
        case WIRE_BYTES(3): has_counters = is_meter; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, is_meter ? "direct meter entry" : "direct counter entry");
    if (type != P4RT_MODIFY)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "direct resources live with their entry: they can only be modified");
    if (has_counters)
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "meters have no counters");
    struct p4rt_entry_message m;
    int code = p4rt_decode_entry(s, entry_span, &m);
    if (code)
        return code;
    if (!has_entry || !m.table)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table entry is missing");
    if (is_meter ? m.table->direct_meter < 0 : !m.table->has_counter)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no direct %s", is_meter ? "meter" : "counter");
    struct ss_meter_rates rates;
    uint64_t packets, bytes;
    code = is_meter ? p4rt_decode_meter_config(s, has_data, data, m.table->meter_type, &rates)
                    : p4rt_decode_counter_data(s, data, &packets, &bytes);
    if (code)
        return code;
    struct ss_table *object = p4rt_table_object(s, m.table);
    struct ss_entry key = { 0 }, old = { 0 };
    if (m.is_default) {
        bool own;
        if (is_meter)
            return p4rt_reject(s, P4RT_UNIMPLEMENTED, "the default entry has no meter");
        if (m.has_match || m.priority)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the default entry has neither match fields nor priority");
        code = p4rt_status(s, ss_table_get_default(object, &old, &own), "the default entry");
    } else {
        code = p4rt_decode_key(s, &m, &key);
        if (!code)
            code = p4rt_status(s, ss_table_find(object, &key, &old), "the entry");
    }
    if (code || (!is_meter && !has_data))
        return code;
    if (s->undo) {
        size_t start = p4rt_undo_open(s, P4RT_MODIFY);
        struct wire_writer *out = &s->undo->bytes;
        size_t direct = wire_begin(out, is_meter ? P4RT_DIRECT_METER : P4RT_DIRECT_COUNTER);
        wire_put_bytes(out, 1, entry_span.data, entry_span.length);
        if (is_meter)
            p4rt_encode_meter_config(out, 2, &s->objects->meters[m.table->direct_meter].rates[old.slot]);
        else
            p4rt_encode_counter_data(out, 2, old.packets, old.bytes);
        wire_end(out, direct);
        p4rt_undo_close(s, start);
    }
    if (is_meter)
        p4rt_set_meter(s, m.table, old.slot, &rates);
    else
        ss_table_set_direct_counter(object, m.is_default ? NULL : &key, packets, bytes);
    return P4RT_OK;
}

/* Counters, meters and registers: an identifier, an index (unset: the whole array) and data. */

struct array_message { uint32_t id; bool has_index, has_data, has_counters; struct wire_span index, data; };

static int decode_array(struct p4rt_session *s, int type, struct wire_span message, const char *what, struct array_message *m)
{
    *m = (struct array_message){ 0 };
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): m->id = (uint32_t)field.value; break;
        case WIRE_BYTES(2): m->index = field.bytes; m->has_index = true; break;
        case WIRE_BYTES(3): m->data = field.bytes; m->has_data = true; break;
        case WIRE_BYTES(4): m->has_counters = true; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, what);
    if (type != P4RT_MODIFY)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a %s can only be modified", what);
    return P4RT_OK;
}

int p4rt_write_counter(struct p4rt_session *s, int type, struct wire_span message)
{
    struct array_message m;
    int64_t index;
    uint64_t packets, bytes;
    int code = decode_array(s, type, message, "counter entry", &m);
    if (code)
        return code;
    const struct p4rt_array *counter = p4rt_find_counter(s->schema, m.id);
    if (!counter)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no counter has id %u", m.id);
    code = p4rt_decode_index(s, m.has_index, m.index, counter->size, &index);
    if (!code)
        code = p4rt_decode_counter_data(s, m.data, &packets, &bytes);
    if (code || !m.has_data)
        return code;
    struct ss_counter *object = &s->objects->counters[counter->index];
    uint32_t first = index < 0 ? 0 : (uint32_t)index, end = index < 0 ? counter->size : first + 1;
    for (uint32_t i = first; i < end; i++) {
        if (s->undo) {
            size_t start = p4rt_undo_open(s, P4RT_MODIFY);
            p4rt_encode_counter(s, &s->undo->bytes, counter, i);
            p4rt_undo_close(s, start);
        }
        object->cells[i].packets = packets;
        object->cells[i].bytes = bytes;
    }
    return P4RT_OK;
}

int p4rt_write_meter(struct p4rt_session *s, int type, struct wire_span message)
{
    struct array_message m;
    int64_t index;
    struct ss_meter_rates rates;
    int code = decode_array(s, type, message, "meter entry", &m);
    if (code)
        return code;
    const struct p4rt_array *meter = p4rt_find_meter(s->schema, m.id);
    if (!meter)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no meter has id %u", m.id);
    if (m.has_counters)
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "meters have no counters");
    code = p4rt_decode_index(s, m.has_index, m.index, meter->size, &index);
    if (!code)
        code = p4rt_decode_meter_config(s, m.has_data, m.data, meter->type, &rates);
    if (code)
        return code;
    uint32_t first = index < 0 ? 0 : (uint32_t)index, end = index < 0 ? meter->size : first + 1;
    for (uint32_t i = first; !code && i < end; i++) {
        if (s->undo) {
            size_t start = p4rt_undo_open(s, P4RT_MODIFY);
            p4rt_encode_meter(s, &s->undo->bytes, meter, i);
            p4rt_undo_close(s, start);
        }
        code = p4rt_status(s, ss_meter_set(s->state, meter->index, i, &rates), "the meter's configuration");
    }
    return code;
}

/* A P4Data message of a register's type into s->cell, as wide as the register's cells. */
static int decode_cell(struct p4rt_session *s, const struct p4rt_register *reg, struct wire_span message)
{
    uint32_t bytes = s->objects->registers[reg->index].bytes;
    struct wire_reader in = wire_open(message);
    struct wire_field field, data = { 0 };
    while (wire_next(&in, &field))
        if (field.key >> 3 <= 12)
            data = field;
    if (in.malformed)
        return p4rt_malformed(s, "register data");
    if (data.key != (reg->tag == 3 ? WIRE_VARINT(3) : WIRE_BYTES(reg->tag)))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the data is not of the register's type");
    if (reg->tag == 3) {
        memset(s->cell, 0, bytes);
        s->cell[bytes - 1] = data.value != 0;
        return P4RT_OK;
    }
    if (!reg->is_signed)
        return p4rt_decode_value(s, data.bytes, reg->bits, bytes, s->cell, "register", reg->id);
    const uint8_t *at = data.bytes.data;
    size_t length = data.bytes.length;
    if (!length)
        return p4rt_reject(s, P4RT_OUT_OF_RANGE, "register %u: the value is empty", reg->id);
    bool negative = at[0] >> 7;
    uint8_t fill = negative ? 0xff : 0;
    for (; length > 1 && at[0] == fill && (at[1] >> 7) == negative; at++)
        length--;
    uint32_t needed = (uint32_t)length * 8;
    for (uint8_t top = at[0]; needed > 1 && (top >> 7 & 1) == (top >> 6 & 1) && needed > (uint32_t)(length - 1) * 8 + 1;
         top = (uint8_t)(top << 1 | negative))
        needed--;
    if (length > bytes || needed > reg->bits)
        return p4rt_reject(s, P4RT_OUT_OF_RANGE, "register %u: the value does not fit in %u bits", reg->id, reg->bits);
    memset(s->cell, fill, bytes - length);
    memcpy(s->cell + bytes - length, at, length);
    s->cell[0] &= (uint8_t)(0xff >> (bytes * 8 - reg->bits));
    return P4RT_OK;
}

int p4rt_write_register(struct p4rt_session *s, int type, struct wire_span message)
{
    struct array_message m;
    int64_t index;
    int code = decode_array(s, type, message, "register entry", &m);
    if (code)
        return code;
    const struct p4rt_register *reg = p4rt_find_register(s->schema, m.id);
    if (!reg)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no register has id %u", m.id);
    code = p4rt_decode_index(s, m.has_index, m.index, reg->size, &index);
    if (!code)
        code = decode_cell(s, reg, m.data);
    if (code)
        return code;
    uint32_t first = index < 0 ? 0 : (uint32_t)index, end = index < 0 ? reg->size : first + 1;
    if (s->undo) {
        for (uint32_t i = first; i < end; i++) {
            size_t start = p4rt_undo_open(s, P4RT_MODIFY);
            p4rt_encode_register(s, &s->undo->bytes, reg, i);  /* uses s->cell */
            p4rt_undo_close(s, start);
        }
        decode_cell(s, reg, m.data);
    }
    for (uint32_t i = first; !code && i < end; i++)
        code = p4rt_status(s, ss_register_write(s->state, reg->index, i, s->cell), "the register's value");
    return code;
}

int p4rt_write_value_set(struct p4rt_session *s, int type, struct wire_span message)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t id = 0, count = 0;
    while (wire_next(&in, &field)) {
        if (field.key == WIRE_VARINT(1))
            id = (uint32_t)field.value;
        count += field.key == WIRE_BYTES(2);
    }
    if (in.malformed)
        return p4rt_malformed(s, "value set entry");
    if (type != P4RT_MODIFY)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a value set can only be modified");
    const struct p4rt_value_set *set = p4rt_find_value_set(s->schema, id);
    if (!set)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no value set has id %u", id);
    if (count > set->size)
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "the value set has room for %u members", set->size);
    size_t total = (size_t)count * set->key_bytes;
    uint8_t *values = malloc(2 * total + 1), *masks = values + total;
    if (!values)
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
    int code = P4RT_OK;
    size_t at = 0;
    in = wire_open(message);
    while (!code && wire_next(&in, &field)) {
        if (field.key != WIRE_BYTES(2))
            continue;
        code = p4rt_decode_match(s, field.bytes, 1, set->fields, set->field_count);
        memcpy(values + at, s->value, set->key_bytes);
        memcpy(masks + at, s->mask, set->key_bytes);
        for (size_t other = 0; !code && other < at; other += set->key_bytes)
            if (!memcmp(values + other, s->value, set->key_bytes) && !memcmp(masks + other, s->mask, set->key_bytes))
                code = p4rt_reject(s, P4RT_ALREADY_EXISTS, "a member is given twice");
        at += set->key_bytes;
    }
    if (!code) {
        if (s->undo) {
            size_t start = p4rt_undo_open(s, P4RT_MODIFY);
            p4rt_encode_value_set(s, &s->undo->bytes, set);
            p4rt_undo_close(s, start);
        }
        code = p4rt_status(s, ss_value_set_write(s->objects->value_sets[set->index], count, values, masks), "the value set");
        p4rt_undo_drop(s, code != P4RT_OK);
    }
    free(values);
    return code;
}
