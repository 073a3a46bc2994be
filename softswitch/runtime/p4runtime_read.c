/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * P4Runtime Read: each requested entity is a filter over a range of objects, walked in slices and written out as
 * ReadResponse messages of at most about CHUNK_BYTES.
 */
#include "p4runtime_session.h"

enum { CHUNK_BYTES = 512 * 1024, MORE = -1 /* not a code: come again */ };

struct p4rt_query {
    struct p4rt_session *s;
    struct wire_reader in;
    struct wire_writer out;
    struct p4rt_errors errors;
    uint32_t index;                /* of the entity being read */
    bool active;                   /* `walk` is under way */
    bool sent;                     /* `out` has been handed over */
    struct walk {                  /* a walk over objects first..end, and within one over its cursor */
        uint32_t kind, object, end, parts;
        uint64_t cursor;
        bool in_groups;
        struct p4rt_entry_message filter;
        uint32_t action_id, member_id;
        int64_t cell;              /* array index asked for, -1: all */
        bool has_action, single;
    } walk;
};

static size_t begin_entity(struct p4rt_query *q)
{
    return wire_begin(&q->out, 1);
}

/* Table entries, and direct counters and meters, which are parts of them. */

static void put_direct(struct p4rt_session *s, struct wire_writer *out, uint32_t kind, const struct p4rt_table *table,
                       const struct ss_entry *entry, bool is_default)
{
    size_t start = wire_begin(out, kind), inner = wire_begin(out, 1);
    wire_put_uint(out, 1, table->id);
    if (is_default) {
        wire_put_uint(out, 8, 1);
    } else {
        p4rt_encode_match(out, 2, table->fields, table->field_count, entry->value, entry->mask);
        wire_put_uint(out, 4, table->needs_priority ? (uint32_t)entry->priority : 0);
    }
    wire_end(out, inner);
    if (kind == P4RT_DIRECT_COUNTER)
        p4rt_encode_counter_data(out, 2, entry->packets, entry->bytes);
    else
        p4rt_encode_meter_config(out, 2, &s->objects->meters[table->direct_meter].rates[entry->slot]);
    wire_end(out, start);
}

static bool has_part(const struct p4rt_table *table, uint32_t kind)
{
    return kind == P4RT_TABLE || (kind == P4RT_DIRECT_COUNTER ? table->has_counter : table->direct_meter >= 0);
}

static void put_entry(struct p4rt_query *q, const struct p4rt_table *table, const struct ss_entry *entry)
{
    size_t start = begin_entity(q);
    if (q->walk.kind == P4RT_TABLE)
        p4rt_encode_entry(q->s, &q->out, P4RT_TABLE, table, entry,
                          q->walk.parts & ~(table->supports_timeout ? 0u : P4RT_WITH_ELAPSED));
    else
        put_direct(q->s, &q->out, q->walk.kind, table, entry, false);
    wire_end(&q->out, start);
}

static void put_default(struct p4rt_query *q, const struct p4rt_table *table)
{
    struct ss_entry entry = { 0 };
    bool own;
    if (q->walk.kind == P4RT_TABLE) {
        size_t start = begin_entity(q);
        p4rt_encode_default(q->s, &q->out, P4RT_TABLE, table, q->walk.parts, true);
        wire_end(&q->out, start);
    } else if (q->walk.kind == P4RT_DIRECT_COUNTER &&
               ss_table_get_default(p4rt_table_object(q->s, table), &entry, &own) == SS_OK) {
        size_t start = begin_entity(q);
        put_direct(q->s, &q->out, q->walk.kind, table, &entry, true);
        wire_end(&q->out, start);
    }
}

/* Does an entry pass the filter's match fields (when the priority was left open)? */
static bool same_match(const struct p4rt_session *s, const struct p4rt_table *table, const struct ss_entry *entry)
{
    for (uint32_t i = 0; i < table->field_count; i++) {
        const struct p4rt_field *field = &table->fields[i];
        if (memcmp(s->value + field->offset, entry->value + field->offset, field->bytes) ||
            (field->kind != SS_EXACT && memcmp(s->mask + field->offset, entry->mask + field->offset, field->bytes)))
            return false;
    }
    return true;
}

static bool passes(struct p4rt_query *q, const struct p4rt_table *table, const struct ss_entry *entry)
{
    const struct p4rt_entry_message *f = &q->walk.filter;
    struct p4rt_session *s = q->s;
    if (f->has_match && !same_match(s, table, entry))
        return false;
    if (f->priority && entry->priority != f->priority)
        return false;
    if (q->walk.has_action) {
        int32_t place = entry->action.kind == SS_DIRECT && entry->action.action < s->schema->object_action_count
                            ? s->schema->action_of[entry->action.action] : -1;
        if (place < 0 || s->schema->actions[place].id != q->walk.action_id)
            return false;
    }
    const struct p4rt_extra *extra = p4rt_extra_of(s, entry->controller_metadata);
    if (f->controller_metadata && f->controller_metadata != extra->controller_metadata)
        return false;
    return !f->metadata.length || (f->metadata.length == extra->metadata_length &&
                                   !memcmp(f->metadata.data, extra->metadata, f->metadata.length));
}

static int walk_tables(struct p4rt_query *q)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    struct ss_entry entry;
    for (uint32_t n = 0; n < P4RT_SLICE; n++) {
        if (w->object == w->end)
            return P4RT_OK;
        const struct p4rt_table *table = &s->schema->tables[w->object];
        if (!has_part(table, w->kind)) {
            w->object++;
        } else if (w->filter.is_default) {
            put_default(q, table);
            w->object++;
        } else if (w->single) {  /* the whole key is given */
            struct ss_entry key = { .value = s->value, .mask = s->mask, .priority = w->filter.priority };
            enum ss_status status = ss_table_find(p4rt_table_object(s, table), &key, &entry);
            if (status == SS_OK && passes(q, table, &entry))
                put_entry(q, table, &entry);
            else if (w->kind != P4RT_TABLE)
                return p4rt_reject(s, P4RT_NOT_FOUND, "the entry does not exist");
            w->object++;
        } else if (!ss_table_next(p4rt_table_object(s, table), &w->cursor, &entry)) {
            w->cursor = 0;
            w->object++;
        } else if (passes(q, table, &entry)) {
            put_entry(q, table, &entry);
        }
    }
    return MORE;
}

static int start_tables(struct p4rt_query *q, uint32_t kind, struct wire_span content)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    struct wire_span entry = content;
    if (kind != P4RT_TABLE) {
        entry.length = 0;
        struct wire_reader in = wire_open(content);
        struct wire_field field;
        while (wire_next(&in, &field)) {
            if (field.key == WIRE_BYTES(1))
                entry = field.bytes;
            else if (field.key == WIRE_BYTES(3) && kind == P4RT_DIRECT_METER)
                return p4rt_reject(s, P4RT_UNIMPLEMENTED, "meters have no counters");
        }
        if (in.malformed)
            return p4rt_malformed(s, "direct resource entry");
    }
    struct p4rt_entry_message *f = &w->filter;
    int code = p4rt_decode_entry(s, entry, f);
    if (code)
        return code;
    if (f->has_meter_counters)
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "meters have no counters");
    w->parts = (f->has_counter ? P4RT_WITH_COUNTER : 0) | (f->has_meter ? P4RT_WITH_METER : 0) |
               (f->has_elapsed ? P4RT_WITH_ELAPSED : 0);
    if (!f->table) {
        if (f->has_match || f->has_action)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a read over all tables filters neither by match nor by action");
        w->object = 0;
        w->end = s->schema->table_count;
        return P4RT_OK;
    }
    w->object = (uint32_t)(f->table - s->schema->tables);
    w->end = w->object + 1;
    if (!has_part(f->table, kind))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no direct %s",
                           kind == P4RT_DIRECT_COUNTER ? "counter" : "meter");
    if (f->has_elapsed && (!f->table->supports_timeout || f->is_default))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no idle timeout is supported here");
    if (f->is_default && (f->has_match || f->priority))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the default entry has neither match fields nor priority");
    if (f->is_default && kind == P4RT_DIRECT_METER)
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "the default entry has no meter");
    if (f->has_action) {
        struct wire_reader in = wire_open(f->action);
        struct wire_field field, part;
        while (wire_next(&in, &field)) {
            if (field.key != WIRE_BYTES(1))
                return p4rt_reject(s, P4RT_UNIMPLEMENTED, "a read filters by action only");
            struct wire_reader inner = wire_open(field.bytes);
            while (wire_next(&inner, &part))
                if (part.key == WIRE_VARINT(1))
                    w->action_id = (uint32_t)part.value;
            if (inner.malformed)
                return p4rt_malformed(s, "action");
            w->has_action = true;
        }
        if (in.malformed)
            return p4rt_malformed(s, "table action");
    }
    if (f->has_match) {
        code = p4rt_decode_match(s, f->message, 2, f->table->fields, f->table->field_count);
        w->single = !f->table->needs_priority || f->priority;
    }
    return code;
}

/* Arrays: counters, meters, registers. */

static uint32_t array_of(const struct p4rt_schema *schema, uint32_t kind, uint32_t object)
{
    switch (kind) {
    case P4RT_COUNTER: return schema->counters[object].size;
    case P4RT_METER: return schema->meters[object].size;
    default: return schema->registers[object].size;
    }
}

static int walk_arrays(struct p4rt_query *q)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    for (uint32_t n = 0; n < 4 * P4RT_SLICE; n++) {
        if (w->object == w->end)
            return P4RT_OK;
        if (w->cell < 0 && w->cursor == array_of(s->schema, w->kind, w->object)) {
            w->cursor = 0;
            w->object++;
            continue;
        }
        uint32_t cell = w->cell < 0 ? (uint32_t)w->cursor++ : (uint32_t)w->cell;
        size_t start = begin_entity(q);
        if (w->kind == P4RT_COUNTER)
            p4rt_encode_counter(s, &q->out, &s->schema->counters[w->object], cell);
        else if (w->kind == P4RT_METER)
            p4rt_encode_meter(s, &q->out, &s->schema->meters[w->object], cell);
        else
            p4rt_encode_register(s, &q->out, &s->schema->registers[w->object], cell);
        wire_end(&q->out, start);
        if (w->cell >= 0)
            w->object++;
    }
    return MORE;
}

static int start_arrays(struct p4rt_query *q, uint32_t kind, struct wire_span content)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    const struct p4rt_schema *schema = s->schema;
    struct wire_reader in = wire_open(content);
    struct wire_field field;
    struct wire_span index = { 0 };
    uint32_t id = 0;
    bool has_index = false;
    while (wire_next(&in, &field)) {
        if (field.key == WIRE_VARINT(1)) {
            id = (uint32_t)field.value;
        } else if (field.key == WIRE_BYTES(2)) {
            index = field.bytes;
            has_index = true;
        } else if (field.key == WIRE_BYTES(4) && kind == P4RT_METER) {
            return p4rt_reject(s, P4RT_UNIMPLEMENTED, "meters have no counters");
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "entity");
    w->cell = -1;
    w->object = 0;
    w->end = kind == P4RT_COUNTER ? schema->counter_count : kind == P4RT_METER ? schema->meter_count : schema->register_count;
    if (!id)
        return has_index ? p4rt_reject(s, P4RT_INVALID_ARGUMENT, "an index needs an id") : P4RT_OK;
    const struct p4rt_array *counter = NULL, *meter = NULL;
    const struct p4rt_register *reg = NULL;
    if (kind == P4RT_COUNTER && (counter = p4rt_find_counter(schema, id)))
        w->object = (uint32_t)(counter - schema->counters);
    else if (kind == P4RT_METER && (meter = p4rt_find_meter(schema, id)))
        w->object = (uint32_t)(meter - schema->meters);
    else if (kind == P4RT_REGISTER && (reg = p4rt_find_register(schema, id)))
        w->object = (uint32_t)(reg - schema->registers);
    else
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no %s has id %u",
                           kind == P4RT_COUNTER ? "counter" : kind == P4RT_METER ? "meter" : "register", id);
    w->end = w->object + 1;
    return p4rt_decode_index(s, has_index, index, array_of(schema, kind, w->object), &w->cell);
}

/* Members, groups and value sets. */

static int walk_profiles(struct p4rt_query *q)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    for (uint32_t n = 0; n < P4RT_SLICE; n++) {
        if (w->object == w->end)
            return P4RT_OK;
        const struct p4rt_profile *profile = &s->schema->profiles[w->object];
        struct ss_profile *object = s->objects->profiles[profile->index];
        struct ss_action_value value;
        const struct ss_member_ref *refs;
        uint32_t id = w->member_id, count, max_size;
        bool is_group = w->kind == P4RT_GROUP, found = false, done = false;
        if (!s->selectors[w->object].action_sets && (!is_group || profile->has_selector)) {
            if (id)
                found = is_group ? ss_group_find(object, id, &refs, &count, &max_size) == SS_OK
                                 : ss_member_find(object, id, &value) == SS_OK;
            else
                found = is_group ? ss_group_next(object, &w->cursor, &id) : ss_member_next(object, &w->cursor, &id, &value);
            done = w->member_id || !found;
        } else {
            done = true;  /* ids of action sets are the switch's own */
        }
        if (found) {
            size_t start = begin_entity(q);
            if (is_group)
                p4rt_encode_group(s, &q->out, profile, id);
            else
                p4rt_encode_member(s, &q->out, profile, id, &value);
            wire_end(&q->out, start);
        }
        if (done) {
            w->object++;
            w->cursor = 0;
        }
    }
    return MORE;
}

static int start_profiles(struct p4rt_query *q, struct wire_span content)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    struct wire_reader in = wire_open(content);
    struct wire_field field;
    uint32_t profile_id = 0;
    while (wire_next(&in, &field)) {
        if (field.key == WIRE_VARINT(1))
            profile_id = (uint32_t)field.value;
        else if (field.key == WIRE_VARINT(2))
            w->member_id = (uint32_t)field.value;
    }
    if (in.malformed)
        return p4rt_malformed(s, "action profile entity");
    w->end = s->schema->profile_count;
    if (!profile_id)
        return w->member_id ? p4rt_reject(s, P4RT_INVALID_ARGUMENT, "action_profile_id is missing") : P4RT_OK;
    const struct p4rt_profile *profile = p4rt_find_profile(s->schema, profile_id);
    if (!profile)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no action profile has id %u", profile_id);
    w->object = (uint32_t)(profile - s->schema->profiles);
    w->end = w->object + 1;
    return P4RT_OK;
}

static int walk_value_sets(struct p4rt_query *q)
{
    struct walk *w = &q->walk;
    for (; w->object < w->end; w->object++) {
        size_t start = begin_entity(q);
        p4rt_encode_value_set(q->s, &q->out, &q->s->schema->value_sets[w->object]);
        wire_end(&q->out, start);
    }
    return P4RT_OK;
}

static int start_value_sets(struct p4rt_query *q, struct wire_span content)
{
    struct walk *w = &q->walk;
    struct p4rt_session *s = q->s;
    struct wire_reader in = wire_open(content);
    struct wire_field field;
    uint32_t id = 0;
    while (wire_next(&in, &field))
        if (field.key == WIRE_VARINT(1))
            id = (uint32_t)field.value;
    if (in.malformed)
        return p4rt_malformed(s, "value set entry");
    w->end = s->schema->value_set_count;
    if (!id)
        return P4RT_OK;
    const struct p4rt_value_set *set = p4rt_find_value_set(s->schema, id);
    if (!set)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no value set has id %u", id);
    w->object = (uint32_t)(set - s->schema->value_sets);
    w->end = w->object + 1;
    return P4RT_OK;
}

/* Queries. */

bool p4rt_read_device(const uint8_t *request, size_t length, uint64_t *device_id)
{
    struct wire_reader in = wire_open((struct wire_span){ request, length });
    struct wire_field field;
    *device_id = 0;
    while (wire_next(&in, &field))
        if (field.key == WIRE_VARINT(1))
            *device_id = field.value;
    return !in.malformed;
}

struct p4rt_query *p4rt_read_begin(struct p4rt_session *s, const uint8_t *request, size_t length)
{
    struct p4rt_query *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->s = s;
    q->in = wire_open((struct wire_span){ request, length });
    s->now_ns = ss_now(s->sw);
    return q;
}

void p4rt_read_fail(struct p4rt_query *q, uint32_t index, int32_t code, const char *message)
{
    p4rt_errors_add(&q->errors, index, code, message);
}

/* Take the next requested entity; 2: it is for the caller. */
static int start(struct p4rt_query *q, struct wire_span entity, struct p4rt_item *item)
{
    struct wire_span content = { 0 };
    bool malformed;
    uint32_t kind = p4rt_entity_kind(entity, &content, &malformed);
    int code;
    q->walk = (struct walk){ .kind = kind };
    if (malformed)
        code = p4rt_malformed(q->s, "entity");
    else switch (kind) {
    case P4RT_TABLE:
    case P4RT_DIRECT_METER:
    case P4RT_DIRECT_COUNTER: code = start_tables(q, kind, content); break;
    case P4RT_MEMBER:
    case P4RT_GROUP: code = start_profiles(q, content); break;
    case P4RT_METER:
    case P4RT_COUNTER:
    case P4RT_REGISTER: code = start_arrays(q, kind, content); break;
    case P4RT_VALUE_SET: code = start_value_sets(q, content); break;
    case P4RT_REPLICATION:
    case P4RT_DIGEST:
        *item = (struct p4rt_item){ q->index++, 0, kind, entity.data, entity.length };
        return 2;
    case P4RT_EXTERN: code = p4rt_reject(q->s, P4RT_UNIMPLEMENTED, "no further externs are known"); break;
    default: code = p4rt_reject(q->s, P4RT_INVALID_ARGUMENT, "the entity is empty"); break;
    }
    if (code)
        p4rt_errors_add(&q->errors, q->index++, code, q->s->message);
    else
        q->active = true;
    return 0;
}

static int walk(struct p4rt_query *q)
{
    switch (q->walk.kind) {
    case P4RT_TABLE:
    case P4RT_DIRECT_METER:
    case P4RT_DIRECT_COUNTER: return walk_tables(q);
    case P4RT_MEMBER:
    case P4RT_GROUP: return walk_profiles(q);
    case P4RT_VALUE_SET: return walk_value_sets(q);
    default: return walk_arrays(q);
    }
}

int p4rt_read_step(struct p4rt_query *q, struct p4rt_item *item)
{
    struct wire_field field;
    if (q->sent)
        q->out.length = 0;
    q->sent = false;
    do {
        while (!q->active) {
            if (!wire_next(&q->in, &field)) {
                if (!q->out.length)
                    return 0;
                goto chunk;
            }
            if (field.key == WIRE_BYTES(2) && start(q, field.bytes, item))
                return 2;
        }
        ss_lock(q->s->sw);
        int code = walk(q);
        ss_unlock(q->s->sw);
        if (code != MORE) {
            q->active = false;
            if (q->out.failed)
                code = p4rt_reject(q->s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
            if (code)
                p4rt_errors_add(&q->errors, q->index, code, q->s->message);
            q->index++;
        }
    } while (q->out.length < CHUNK_BYTES);
chunk:
    *item = (struct p4rt_item){ .data = q->out.data, .length = q->out.length };
    q->sent = true;
    return 1;
}

const struct p4rt_error *p4rt_read_errors(const struct p4rt_query *q, uint32_t *count, uint32_t *entities)
{
    *count = q->errors.count;
    *entities = q->index;
    return q->errors.list;
}

void p4rt_read_free(struct p4rt_query *q)
{
    if (!q)
        return;
    wire_free(&q->out);
    free(q->errors.list);
    free(q);
}
