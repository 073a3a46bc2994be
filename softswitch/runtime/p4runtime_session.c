/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 */
#include "p4runtime_session.h"

#include <stdarg.h>
#include <stdio.h>

static uint32_t at_least_one(uint32_t count)
{
    return count ? count : 1;
}

struct p4rt_session *p4rt_open(struct ss_switch *sw, struct ss_switch *ports, const struct p4rt_schema *schema)
{
    struct p4rt_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->sw = sw;
    s->ports = ports;
    s->schema = schema;
    s->state = ss_switch_state(sw);
    s->objects = ss_switch_program(sw)->objects(s->state);
    uint32_t key = 1, fields = 1, parameters = 1, cell = 1;
    for (uint32_t i = 0; i < schema->table_count; i++) {
        key = schema->tables[i].key_bytes > key ? schema->tables[i].key_bytes : key;
        fields = schema->tables[i].field_count > fields ? schema->tables[i].field_count : fields;
    }
    for (uint32_t i = 0; i < schema->value_set_count; i++) {
        key = schema->value_sets[i].key_bytes > key ? schema->value_sets[i].key_bytes : key;
        fields = schema->value_sets[i].field_count > fields ? schema->value_sets[i].field_count : fields;
    }
    for (uint32_t i = 0; i < schema->action_count; i++)
        parameters = schema->actions[i].parameter_bytes > parameters ? schema->actions[i].parameter_bytes : parameters;
    for (uint32_t i = 0; i < schema->register_count; i++) {
        uint32_t bytes = s->objects->registers[schema->registers[i].index].bytes;
        cell = bytes > cell ? bytes : cell;
    }
    s->value = malloc(key);
    s->mask = malloc(key);
    s->seen = malloc(fields);
    s->parameters = malloc(parameters);
    s->cell = malloc(cell);
    s->extras = calloc(1, sizeof *s->extras);
    s->extra_count = 1;
    s->default_extras = calloc(at_least_one(schema->table_count), sizeof *s->default_extras);
    s->selectors = calloc(at_least_one(schema->profile_count), sizeof *s->selectors);
    if (!s->value || !s->mask || !s->seen || !s->parameters || !s->cell || !s->extras || !s->default_extras ||
        !s->selectors) {
        p4rt_close(s);
        return NULL;
    }
    return s;
}

void p4rt_close(struct p4rt_session *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->extras && i < s->extra_count; i++) {
        free(s->extras[i].metadata);
        free(s->extras[i].action_set);
    }
    free(s->extras);
    free(s->default_extras);
    free(s->selectors);
    free(s->value);
    free(s->mask);
    free(s->seen);
    free(s->parameters);
    free(s->cell);
    wire_free(&s->idle);
    free(s);
}

/* Rejections. */

int p4rt_reject(struct p4rt_session *s, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->message, sizeof s->message, format, arguments);
    va_end(arguments);
    return code;
}

int p4rt_malformed(struct p4rt_session *s, const char *what)
{
    return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "%s is not a valid message", what);
}

int p4rt_status(struct p4rt_session *s, enum ss_status status, const char *what)
{
    switch (status) {
    case SS_OK: return P4RT_OK;
    case SS_EXISTS: return p4rt_reject(s, P4RT_ALREADY_EXISTS, "%s exists already", what);
    case SS_NOT_FOUND: return p4rt_reject(s, P4RT_NOT_FOUND, "%s does not exist", what);
    case SS_FULL: return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "%s: no room left", what);
    case SS_IN_USE: return p4rt_reject(s, P4RT_FAILED_PRECONDITION, "%s is in use", what);
    case SS_CONST: return p4rt_reject(s, P4RT_PERMISSION_DENIED, "%s is constant", what);
    case SS_NO_MEMORY: return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    case SS_INVALID: break;
    }
    return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "%s is not valid", what);
}

void p4rt_errors_add(struct p4rt_errors *errors, uint32_t index, int32_t code, const char *message)
{
    if (errors->count == errors->capacity) {
        uint32_t capacity = errors->capacity ? errors->capacity * 2 : 16;
        struct p4rt_error *list = realloc(errors->list, capacity * sizeof *list);
        if (!list) {
            if (errors->count)  /* the batch still fails, with the last slot standing for the rest */
                errors->list[errors->count - 1].code = P4RT_RESOURCE_EXHAUSTED;
            return;
        }
        errors->list = list;
        errors->capacity = capacity;
    }
    struct p4rt_error *error = &errors->list[errors->count++];
    error->index = index;
    error->code = code;
    snprintf(error->message, sizeof error->message, "%s", message);
}

/* Look-ups by identifier in the schema's sorted lists. */

#define DEFINE_FIND(NAME, TYPE, LIST, COUNT)                                        \
    const TYPE *NAME(const struct p4rt_schema *schema, uint32_t id)                 \
    {                                                                               \
        uint32_t low = 0, high = schema->COUNT;                                     \
        while (low < high) {                                                        \
            uint32_t middle = low + (high - low) / 2;                               \
            if (schema->LIST[middle].id < id)                                       \
                low = middle + 1;                                                   \
            else                                                                    \
                high = middle;                                                      \
        }                                                                           \
        return low < schema->COUNT && schema->LIST[low].id == id ? &schema->LIST[low] : NULL; \
    }

DEFINE_FIND(p4rt_find_table, struct p4rt_table, tables, table_count)
DEFINE_FIND(p4rt_find_action, struct p4rt_action, actions, action_count)
DEFINE_FIND(p4rt_find_profile, struct p4rt_profile, profiles, profile_count)
DEFINE_FIND(p4rt_find_counter, struct p4rt_array, counters, counter_count)
DEFINE_FIND(p4rt_find_meter, struct p4rt_array, meters, meter_count)
DEFINE_FIND(p4rt_find_register, struct p4rt_register, registers, register_count)
DEFINE_FIND(p4rt_find_value_set, struct p4rt_value_set, value_sets, value_set_count)

struct ss_table *p4rt_table_object(const struct p4rt_session *s, const struct p4rt_table *table)
{
    return s->objects->tables[table->index];
}

struct p4rt_extra *p4rt_extra_of(struct p4rt_session *s, uint64_t place)
{
    return &s->extras[place < s->extra_count && s->extras[place].used ? place : 0];
}

/* Decoding. */

uint32_t p4rt_entity_kind(struct wire_span entity, struct wire_span *content, bool *malformed)
{
    struct wire_reader in = wire_open(entity);
    struct wire_field field;
    uint32_t kind = 0;
    while (wire_next(&in, &field))
        if ((field.key & 7) == 2 && field.key >> 3 <= P4RT_DIGEST) {
            kind = field.key >> 3;
            *content = field.bytes;
        }
    *malformed = in.malformed;
    return kind;
}

static uint32_t significant_bits(const uint8_t *data, size_t length)
{
    return (uint32_t)(length * 8) - (uint32_t)__builtin_clz((uint32_t)data[0] << 24 | 1u << 23);
}

int p4rt_decode_value(struct p4rt_session *s, struct wire_span span, uint32_t bits, uint32_t bytes, uint8_t *out,
                      const char *what, uint32_t id)
{
    if (!span.length)
        return p4rt_reject(s, P4RT_OUT_OF_RANGE, "%s %u: the value is empty", what, id);
    while (span.length > 1 && !*span.data) {
        span.data++;
        span.length--;
    }
    if (*span.data && (span.length > bytes || significant_bits(span.data, span.length) > bits))
        return p4rt_reject(s, P4RT_OUT_OF_RANGE, "%s %u: the value does not fit in %u bits", what, id, bits);
    memset(out, 0, bytes - span.length);
    memcpy(out + bytes - span.length, span.data, span.length);
    return P4RT_OK;
}

int p4rt_decode_entry(struct p4rt_session *s, struct wire_span message, struct p4rt_entry_message *m)
{
    *m = (struct p4rt_entry_message){ .message = message };
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t table_id = 0;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): table_id = (uint32_t)field.value; break;
        case WIRE_BYTES(2): m->has_match = true; break;
        case WIRE_BYTES(3): m->action = field.bytes; m->has_action = true; break;
        case WIRE_VARINT(4): m->priority = (int32_t)field.value; break;
        case WIRE_VARINT(5): m->controller_metadata = field.value; break;
        case WIRE_BYTES(6): m->meter = field.bytes; m->has_meter = true; break;
        case WIRE_BYTES(7): m->counter = field.bytes; m->has_counter = true; break;
        case WIRE_VARINT(8): m->is_default = field.value != 0; break;
        case WIRE_VARINT(9): m->idle_timeout_ns = (int64_t)field.value; break;
        case WIRE_BYTES(10): m->has_elapsed = true; break;
        case WIRE_BYTES(11): m->metadata = field.bytes; break;
        case WIRE_BYTES(12): m->has_meter_counters = true; break;
        case WIRE_VARINT(13): m->is_const = field.value != 0; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "table entry");
    if (!table_id)
        return P4RT_OK;
    m->table = p4rt_find_table(s->schema, table_id);
    return m->table ? P4RT_OK : p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no table has id %u", table_id);
}

static void fill_mask(uint8_t *mask, uint32_t bits, uint32_t bytes, uint32_t prefix)
{
    /* The `prefix` most significant of `bits` bits, which stand at the low end of `bytes` bytes. */
    uint32_t first = bytes * 8 - bits;
    memset(mask, 0, bytes);
    for (uint32_t bit = first; bit < first + prefix;) {
        if (bit % 8 == 0 && bit + 8 <= first + prefix) {
            mask[bit / 8] = 0xff;
            bit += 8;
        } else {
            mask[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
            bit++;
        }
    }
}

static bool all_zero(const uint8_t *data, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (data[i])
            return false;
    return true;
}

static bool is_full_mask(const uint8_t *mask, uint32_t bits, uint32_t bytes)
{
    uint32_t ones = 0;
    for (uint32_t i = 0; i < bytes; i++)
        ones += (uint32_t)__builtin_popcount(mask[i]);
    return ones == bits;
}

static int decode_field(struct p4rt_session *s, const struct p4rt_field *field, uint32_t kind, struct wire_span content)
{
    static const uint32_t expected[] = { [SS_EXACT] = 2, [SS_TERNARY] = 3, [SS_LPM] = 4, [SS_RANGE] = 6, [SS_OPTIONAL] = 7 };
    if (!kind)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u says nothing", field->id);
    if (kind != expected[field->kind])
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u has another match type", field->id);
    struct wire_reader in = wire_open(content);
    struct wire_field part;
    struct wire_span first = { content.data, 0 }, second = { content.data, 0 };
    int32_t prefix = 0;
    while (wire_next(&in, &part)) {
        if (part.key == WIRE_BYTES(1))
            first = part.bytes;
        else if (part.key == WIRE_BYTES(2))
            second = part.bytes;
        else if (part.key == WIRE_VARINT(2))
            prefix = (int32_t)part.value;
    }
    if (in.malformed)
        return p4rt_malformed(s, "match field");
    uint8_t *value = s->value + field->offset, *mask = s->mask + field->offset;
    int code = p4rt_decode_value(s, first, field->bits, field->bytes, value, "match field", field->id);
    if (code)
        return code;
    switch ((enum ss_match_kind)field->kind) {
    case SS_EXACT:
    case SS_OPTIONAL:
        fill_mask(mask, field->bits, field->bytes, field->bits);
        return P4RT_OK;
    case SS_LPM:
        if (prefix <= 0 || (uint32_t)prefix > field->bits)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u: prefix length %d is not in 1..%u%s", field->id,
                               prefix, field->bits, prefix ? "" : " (leave the field out to match everything)");
        fill_mask(mask, field->bits, field->bytes, (uint32_t)prefix);
        break;
    case SS_TERNARY:
        code = p4rt_decode_value(s, second, field->bits, field->bytes, mask, "mask of match field", field->id);
        if (code)
            return code;
        if (all_zero(mask, field->bytes))
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u: leave a field out to match everything", field->id);
        break;
    case SS_RANGE:
        code = p4rt_decode_value(s, second, field->bits, field->bytes, mask, "upper bound of match field", field->id);
        if (code)
            return code;
        if (memcmp(value, mask, field->bytes) > 0)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u: the lower bound is above the upper", field->id);
        if (all_zero(value, field->bytes) && is_full_mask(mask, field->bits, field->bytes))
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u: leave a field out to match everything", field->id);
        return P4RT_OK;
    }
    for (uint32_t i = 0; i < field->bytes; i++)
        if (value[i] & ~mask[i])
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u: bits outside the mask are set", field->id);
    return P4RT_OK;
}

int p4rt_decode_match(struct p4rt_session *s, struct wire_span message, uint32_t number, const struct p4rt_field *fields,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        s->seen[i] = 0;
        memset(s->value + fields[i].offset, 0, fields[i].bytes);
        fill_mask(s->mask + fields[i].offset, fields[i].bits, fields[i].bytes,
                  fields[i].kind == SS_RANGE ? fields[i].bits : 0);
    }
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    while (wire_next(&in, &field)) {
        if (field.key != WIRE_BYTES(number))
            continue;
        struct wire_reader inner = wire_open(field.bytes);
        struct wire_field part;
        struct wire_span content = { 0 };
        uint32_t id = 0, kind = 0;
        while (wire_next(&inner, &part)) {
            if (part.key == WIRE_VARINT(1)) {
                id = (uint32_t)part.value;
            } else if ((part.key & 7) == 2) {
                kind = part.key >> 3;
                content = part.bytes;
            }
        }
        if (inner.malformed)
            return p4rt_malformed(s, "match field");
        uint32_t i = 0;
        while (i < count && fields[i].id != id)
            i++;
        if (i == count)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the key has no match field %u", id);
        if (s->seen[i]++)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u is given twice", id);
        int code = decode_field(s, &fields[i], kind, content);
        if (code)
            return code;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!s->seen[i] && fields[i].kind == SS_EXACT)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "match field %u is missing (it is exact)", fields[i].id);
    return P4RT_OK;
}

int p4rt_decode_key(struct p4rt_session *s, const struct p4rt_entry_message *m, struct ss_entry *key)
{
    int code = p4rt_decode_match(s, m->message, 2, m->table->fields, m->table->field_count);
    if (code)
        return code;
    if (m->table->needs_priority ? m->priority <= 0 : m->priority != 0)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, m->table->needs_priority ? "priority must be above 0"
                                                                              : "this table's entries have no priority");
    *key = (struct ss_entry){ .value = s->value, .mask = s->mask, .priority = m->priority };
    return P4RT_OK;
}

int p4rt_decode_index(struct p4rt_session *s, bool present, struct wire_span message, uint32_t size, int64_t *index)
{
    *index = -1;
    if (!present)
        return P4RT_OK;
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    int64_t value = 0;
    while (wire_next(&in, &field))
        if (field.key == WIRE_VARINT(1))
            value = (int64_t)field.value;
    if (in.malformed)
        return p4rt_malformed(s, "index");
    if (value < 0)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "index %lld is negative", (long long)value);
    if (value >= size)
        return p4rt_reject(s, P4RT_OUT_OF_RANGE, "index %lld is not below the size %u", (long long)value, size);
    *index = value;
    return P4RT_OK;
}

/* Encoding. */

void p4rt_encode_value(struct wire_writer *out, uint32_t number, const uint8_t *data, uint32_t bytes)
{
    while (bytes > 1 && !*data) {
        data++;
        bytes--;
    }
    wire_put_bytes(out, number, data, bytes);
}

static uint32_t prefix_length(const uint8_t *mask, uint32_t bytes)
{
    uint32_t ones = 0;
    for (uint32_t i = 0; i < bytes; i++)
        ones += (uint32_t)__builtin_popcount(mask[i]);
    return ones;
}

void p4rt_encode_match(struct wire_writer *out, uint32_t number, const struct p4rt_field *fields, uint32_t count,
                       const uint8_t *value, const uint8_t *mask)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct p4rt_field *field = &fields[i];
        const uint8_t *v = value + field->offset, *m = mask + field->offset;
        bool free_choice = field->kind == SS_RANGE ? all_zero(v, field->bytes) && is_full_mask(m, field->bits, field->bytes)
                                                   : field->kind != SS_EXACT && all_zero(m, field->bytes);
        if (free_choice)
            continue;
        size_t match = wire_begin(out, number), content;
        wire_put_uint(out, 1, field->id);
        switch ((enum ss_match_kind)field->kind) {
        case SS_EXACT:
            content = wire_begin(out, 2);
            p4rt_encode_value(out, 1, v, field->bytes);
            break;
        case SS_TERNARY:
            content = wire_begin(out, 3);
            p4rt_encode_value(out, 1, v, field->bytes);
            p4rt_encode_value(out, 2, m, field->bytes);
            break;
        case SS_LPM:
            content = wire_begin(out, 4);
            p4rt_encode_value(out, 1, v, field->bytes);
            wire_put_uint(out, 2, prefix_length(m, field->bytes));
            break;
        case SS_RANGE:
            content = wire_begin(out, 6);
            p4rt_encode_value(out, 1, v, field->bytes);
            p4rt_encode_value(out, 2, m, field->bytes);
            break;
        default:
            content = wire_begin(out, 7);
            p4rt_encode_value(out, 1, v, field->bytes);
            break;
        }
        wire_end(out, content);
        wire_end(out, match);
    }
}

static void encode_action(struct p4rt_session *s, struct wire_writer *out, uint32_t number, const struct ss_action_value *value)
{
    int32_t place = value->action < s->schema->object_action_count ? s->schema->action_of[value->action] : -1;
    size_t start = wire_begin(out, number);
    if (place >= 0) {
        const struct p4rt_action *action = &s->schema->actions[place];
        wire_put_uint(out, 1, action->id);
        for (uint32_t i = 0; i < action->parameter_count; i++) {
            const struct p4rt_parameter *parameter = &action->parameters[i];
            size_t inner = wire_begin(out, 4);
            wire_put_uint(out, 2, parameter->id);
            p4rt_encode_value(out, 3, value->parameters + parameter->offset, parameter->bytes);
            wire_end(out, inner);
        }
    }
    wire_end(out, start);
}

static void encode_table_action(struct p4rt_session *s, struct wire_writer *out, uint32_t number,
                                const struct ss_action_value *value, const struct p4rt_extra *extra)
{
    size_t start = wire_begin(out, number);
    if (extra->action_set)
        wire_put_bytes(out, 4, extra->action_set, extra->action_set_length);
    else if (value->kind == SS_DIRECT)
        encode_action(s, out, 1, value);
    else
        wire_put_uint(out, value->kind == SS_MEMBER ? 2 : 3, value->id);
    wire_end(out, start);
}

void p4rt_encode_counter_data(struct wire_writer *out, uint32_t number, uint64_t packets, uint64_t bytes)
{
    size_t start = wire_begin(out, number);
    wire_put_uint(out, 1, bytes);
    wire_put_uint(out, 2, packets);
    wire_end(out, start);
}

void p4rt_encode_meter_config(struct wire_writer *out, uint32_t number, const struct ss_meter_rates *rates)
{
    if (!rates->configured)
        return;
    size_t start = wire_begin(out, number);
    wire_put_uint(out, 1, rates->cir);
    wire_put_uint(out, 2, rates->cburst);
    wire_put_uint(out, 3, rates->pir);
    wire_put_uint(out, 4, rates->pburst);
    wire_end(out, start);
}

void p4rt_encode_index(struct wire_writer *out, uint32_t number, uint32_t index)
{
    size_t start = wire_begin(out, number);
    wire_put_uint(out, 1, index);
    wire_end(out, start);
}

void p4rt_encode_entry(struct p4rt_session *s, struct wire_writer *out, uint32_t number, const struct p4rt_table *table,
                       const struct ss_entry *entry, uint32_t parts)
{
    const struct p4rt_extra *extra = p4rt_extra_of(s, entry->controller_metadata);
    size_t start = wire_begin(out, number);
    wire_put_uint(out, 1, table->id);
    p4rt_encode_match(out, 2, table->fields, table->field_count, entry->value, entry->mask);
    encode_table_action(s, out, 3, &entry->action, extra);
    if (table->needs_priority)
        wire_put_uint(out, 4, (uint32_t)entry->priority);
    wire_put_uint(out, 5, extra->controller_metadata);
    if (parts & P4RT_WITH_METER && table->direct_meter >= 0)
        p4rt_encode_meter_config(out, 6, &s->objects->meters[table->direct_meter].rates[entry->slot]);
    if (parts & P4RT_WITH_COUNTER && table->has_counter)
        p4rt_encode_counter_data(out, 7, entry->packets, entry->bytes);
    wire_put_uint(out, 9, entry->idle_timeout_ns);
    if (parts & P4RT_WITH_ELAPSED) {
        size_t elapsed = wire_begin(out, 10);
        wire_put_uint(out, 1, s->now_ns > entry->last_hit_ns ? s->now_ns - entry->last_hit_ns : 0);
        wire_end(out, elapsed);
    }
    if (extra->metadata_length)
        wire_put_bytes(out, 11, extra->metadata, extra->metadata_length);
    wire_put_uint(out, 13, entry->is_const || table->is_const);
    wire_end(out, start);
}

void p4rt_encode_default(struct p4rt_session *s, struct wire_writer *out, uint32_t number, const struct p4rt_table *table,
                         uint32_t parts, bool own_action_too)
{
    struct ss_entry entry = { 0 };
    bool is_own = true;
    bool known = ss_table_get_default(p4rt_table_object(s, table), &entry, &is_own) == SS_OK &&
                 (entry.action.kind != SS_DIRECT || (entry.action.action < s->schema->object_action_count &&
                                                     s->schema->action_of[entry.action.action] >= 0));
    const struct p4rt_extra *extra = &s->extras[s->default_extras[table - s->schema->tables]];
    size_t start = wire_begin(out, number);
    wire_put_uint(out, 1, table->id);
    if (known && (own_action_too || !is_own))
        encode_table_action(s, out, 3, &entry.action, extra);
    wire_put_uint(out, 5, extra->controller_metadata);
    if (parts & P4RT_WITH_COUNTER && table->has_counter)
        p4rt_encode_counter_data(out, 7, entry.packets, entry.bytes);
    wire_put_uint(out, 8, 1);
    if (extra->metadata_length)
        wire_put_bytes(out, 11, extra->metadata, extra->metadata_length);
    wire_end(out, start);
}

void p4rt_encode_counter(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_array *counter, uint32_t index)
{
    const struct ss_counter *object = &s->objects->counters[counter->index];
    size_t start = wire_begin(out, P4RT_COUNTER);
    wire_put_uint(out, 1, counter->id);
    p4rt_encode_index(out, 2, index);
    p4rt_encode_counter_data(out, 3, object->cells[index].packets, object->cells[index].bytes);
    wire_end(out, start);
}

void p4rt_encode_meter(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_array *meter, uint32_t index)
{
    size_t start = wire_begin(out, P4RT_METER);
    wire_put_uint(out, 1, meter->id);
    p4rt_encode_index(out, 2, index);
    p4rt_encode_meter_config(out, 3, &s->objects->meters[meter->index].rates[index]);
    wire_end(out, start);
}

void p4rt_encode_register(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_register *reg, uint32_t index)
{
    uint32_t bytes = s->objects->registers[reg->index].bytes;
    memset(s->cell, 0, bytes);
    ss_register_read(s->state, reg->index, index, s->cell);
    size_t start = wire_begin(out, P4RT_REGISTER);
    wire_put_uint(out, 1, reg->id);
    p4rt_encode_index(out, 2, index);
    size_t data = wire_begin(out, 3);
    const uint8_t *at = s->cell;
    if (reg->tag == 3) {
        wire_put_uint(out, 3, at[bytes - 1]);
    } else if (reg->is_signed && bytes) {
        uint32_t spare = bytes * 8 - reg->bits;
        bool negative = at[0] >> (7 - spare) & 1;
        if (negative)
            s->cell[0] |= (uint8_t)(0xff00 >> spare);
        uint8_t fill = negative ? 0xff : 0;
        while (bytes > 1 && at[0] == fill && (at[1] >> 7) == negative) {
            at++;
            bytes--;
        }
        wire_put_bytes(out, reg->tag, at, bytes);
    } else {
        p4rt_encode_value(out, reg->tag, at, bytes);
    }
    wire_end(out, data);
    wire_end(out, start);
}

void p4rt_encode_value_set(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_value_set *set)
{
    struct ss_value_set *object = s->objects->value_sets[set->index];
    const uint8_t *value, *mask;
    size_t start = wire_begin(out, P4RT_VALUE_SET);
    wire_put_uint(out, 1, set->id);
    for (uint32_t i = 0; ss_value_set_read(object, i, &value, &mask); i++) {
        size_t member = wire_begin(out, 2);
        p4rt_encode_match(out, 1, set->fields, set->field_count, value, mask);
        wire_end(out, member);
    }
    wire_end(out, start);
}

void p4rt_encode_member(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_profile *profile, uint32_t id,
                        const struct ss_action_value *value)
{
    size_t start = wire_begin(out, P4RT_MEMBER);
    wire_put_uint(out, 1, profile->id);
    wire_put_uint(out, 2, id);
    encode_action(s, out, 3, value);
    wire_end(out, start);
}

void p4rt_encode_group(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_profile *profile, uint32_t id)
{
    const struct ss_member_ref *members;
    uint32_t count, max_size;
    if (ss_group_find(s->objects->profiles[profile->index], id, &members, &count, &max_size) != SS_OK)
        return;
    size_t start = wire_begin(out, P4RT_GROUP);
    wire_put_uint(out, 1, profile->id);
    wire_put_uint(out, 2, id);
    for (uint32_t i = 0; i < count; i++) {
        size_t member = wire_begin(out, 3);
        wire_put_uint(out, 1, members[i].member);
        wire_put_uint(out, 2, profile->weights_disallowed ? 0 : (uint32_t)members[i].weight);
        if (members[i].has_watch) {
            uint32_t port = members[i].watch_port;
            uint8_t bytes[4] = { (uint8_t)(port >> 24), (uint8_t)(port >> 16), (uint8_t)(port >> 8), (uint8_t)port };
            p4rt_encode_value(out, 4, bytes, 4);
        }
        wire_end(out, member);
    }
    wire_put_uint(out, 4, max_size);
    wire_end(out, start);
}

/* Idle entries. */

uint32_t p4rt_idle_count(const struct p4rt_session *s)
{
    return s->idle_entries;
}

size_t p4rt_idle_entries(struct p4rt_session *s, const uint8_t **bytes)
{
    s->idle.length = 0;
    if (!s->idle_entries)
        return 0;
    s->now_ns = ss_now(s->sw);
    for (uint32_t i = 0; i < s->schema->table_count; i++) {
        const struct p4rt_table *table = &s->schema->tables[i];
        if (!table->supports_timeout)
            continue;
        uint64_t cursor = 0;
        struct ss_entry entry;
        for (bool more = true; more;) {
            ss_lock(s->sw);
            for (uint32_t n = 0; n < P4RT_SLICE && (more = ss_table_next(p4rt_table_object(s, table), &cursor, &entry)); n++) {
                if (!entry.idle_timeout_ns)
                    continue;
                struct p4rt_extra *extra = p4rt_extra_of(s, entry.controller_metadata);
                uint64_t since = extra->notified_ns > entry.last_hit_ns ? extra->notified_ns : entry.last_hit_ns;
                if (s->now_ns < since || s->now_ns - since < entry.idle_timeout_ns)
                    continue;
                extra->notified_ns = s->now_ns;
                p4rt_encode_entry(s, &s->idle, 1, table, &entry, 0);
            }
            ss_unlock(s->sw);
        }
    }
    *bytes = s->idle.data;
    return s->idle.length;
}
