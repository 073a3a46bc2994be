/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Write: table entries, and the extras that are kept of them.
 */
#include "p4runtime_write.h"

static uint32_t extra_new(struct p4rt_session *s)
{
    uint32_t place = s->extra_free;
    if (place) {
        s->extra_free = s->extras[place].next_free;
    } else {
        if ((s->extra_count & (s->extra_count - 1)) == 0) {
            struct p4rt_extra *extras = realloc(s->extras, 2 * (size_t)s->extra_count * sizeof *extras);
            if (!extras)
                return 0;
            s->extras = extras;
        }
        place = s->extra_count++;
    }
    s->extras[place] = (struct p4rt_extra){ .used = true };
    return place;
}

static void extra_release(struct p4rt_session *s, uint64_t place)
{
    struct p4rt_extra *extra = p4rt_extra_of(s, place);
    if (extra == s->extras)
        return;
    free(extra->metadata);
    free(extra->action_set);
    *extra = (struct p4rt_extra){ .next_free = s->extra_free };
    s->extra_free = (uint32_t)place;
}

/* Make what an entry needs remembered; *place is 0 if that is nothing. `action_set` is taken over. */
static int extra_make(struct p4rt_session *s, const struct p4rt_entry_message *m, struct wire_writer *action_set,
                      uint32_t *place)
{
    *place = 0;
    if (!m->controller_metadata && !m->metadata.length && !action_set->data && !m->idle_timeout_ns)
        return P4RT_OK;
    uint8_t *metadata = NULL;
    if (m->metadata.length && !(metadata = malloc(m->metadata.length)))
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
    if (!(*place = extra_new(s))) {
        free(metadata);
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (metadata)
        memcpy(metadata, m->metadata.data, m->metadata.length);
    struct p4rt_extra *extra = &s->extras[*place];
    extra->controller_metadata = m->controller_metadata;
    extra->metadata = metadata;
    extra->metadata_length = (uint32_t)m->metadata.length;
    extra->action_set = action_set->data;
    extra->action_set_length = (uint32_t)action_set->length;
    *action_set = (struct wire_writer){ 0 };
    return P4RT_OK;
}

struct direct_resources { struct ss_meter_rates rates; uint64_t packets, bytes; };

/* Check and decode everything of an entry but its key and action. */
static int decode_resources(struct p4rt_session *s, const struct p4rt_entry_message *m, struct direct_resources *out)
{
    const struct p4rt_table *table = m->table;
    if (m->has_elapsed)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "time_since_last_hit is read, not written");
    if (m->idle_timeout_ns < 0 || (m->idle_timeout_ns && (!table->supports_timeout || m->is_default)))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, m->idle_timeout_ns < 0 ? "the idle timeout is negative"
                                                                            : "no idle timeout is supported here");
    if (m->has_meter_counters)
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "meters have no counters");
    if (m->has_counter && !table->has_counter)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no direct counter");
    if (m->has_meter && table->direct_meter < 0)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no direct meter");
    int code = p4rt_decode_meter_config(s, m->has_meter, m->meter, table->meter_type, &out->rates);
    return code ? code : p4rt_decode_counter_data(s, m->counter, &out->packets, &out->bytes);
}

static int insert_entry(struct p4rt_session *s, const struct p4rt_entry_message *m, struct ss_entry *entry,
                        struct wire_span entity)
{
    struct ss_table *object = p4rt_table_object(s, m->table);
    struct direct_resources direct;
    struct wire_writer action_set = { 0 };
    uint32_t extra = 0;
    uint64_t handle;
    if (m->table->is_const)
        return p4rt_reject(s, P4RT_PERMISSION_DENIED, "the table is constant");
    if (!m->table->field_count)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no key: only its default action can be set");
    int code = decode_resources(s, m, &direct);
    if (!code)
        code = p4rt_decode_table_action(s, m->table, m->action, &entry->action, &action_set);
    if (code)
        return code;
    bool one_shot = action_set.data != NULL;
    code = extra_make(s, m, &action_set, &extra);
    if (!code) {
        entry->controller_metadata = extra;
        entry->idle_timeout_ns = (uint64_t)m->idle_timeout_ns;
        entry->last_hit_ns = s->now_ns;
        entry->packets = direct.packets;
        entry->bytes = direct.bytes;
        code = p4rt_status(s, ss_table_insert(object, entry, &handle), "the entry");
    }
    if (code) {
        extra_release(s, extra);
        wire_free(&action_set);
        if (one_shot)
            p4rt_remove_action_set(s, &s->schema->profiles[m->table->profile], entry->action.id);
        return code;
    }
    s->idle_entries += entry->idle_timeout_ns != 0;
    if (m->has_counter)
        ss_table_set_direct_counter(object, entry, direct.packets, direct.bytes);
    if (m->table->direct_meter >= 0) {
        struct ss_entry stored;
        if (ss_table_find(object, entry, &stored) == SS_OK)
            p4rt_set_meter(s, m->table, stored.slot, &direct.rates);
    }
    p4rt_undo_insert(s, entity);
    return P4RT_OK;
}

/* An entry whose action is constant: its direct resources may still change. */
static int modify_resources(struct p4rt_session *s, const struct p4rt_entry_message *m, const struct ss_entry *key,
                            const struct ss_entry *old, const struct direct_resources *direct)
{
    if (m->has_counter)
        ss_table_set_direct_counter(p4rt_table_object(s, m->table), key, direct->packets, direct->bytes);
    p4rt_set_meter(s, m->table, old->slot, &direct->rates);
    return P4RT_OK;
}

static void undo_entry(struct p4rt_session *s, int type, const struct p4rt_table *table, const struct ss_entry *old,
                       uint32_t parts, bool without_action)
{
    if (!s->undo)
        return;
    size_t start = p4rt_undo_open(s, type);
    if (without_action) {  /* direct resources of a constant entry */
        size_t entry = wire_begin(&s->undo->bytes, P4RT_TABLE);
        wire_put_uint(&s->undo->bytes, 1, table->id);
        p4rt_encode_match(&s->undo->bytes, 2, table->fields, table->field_count, old->value, old->mask);
        wire_put_uint(&s->undo->bytes, 4, table->needs_priority ? (uint32_t)old->priority : 0);
        if (table->direct_meter >= 0)
            p4rt_encode_meter_config(&s->undo->bytes, 6, &s->objects->meters[table->direct_meter].rates[old->slot]);
        if (parts & P4RT_WITH_COUNTER)
            p4rt_encode_counter_data(&s->undo->bytes, 7, old->packets, old->bytes);
        wire_end(&s->undo->bytes, entry);
    } else {
        p4rt_encode_entry(s, &s->undo->bytes, P4RT_TABLE, table, old, parts);
    }
    p4rt_undo_close(s, start);
}

static int modify_entry(struct p4rt_session *s, const struct p4rt_entry_message *m, struct ss_entry *entry)
{
    struct ss_table *object = p4rt_table_object(s, m->table);
    struct ss_entry old;
    struct direct_resources direct;
    struct wire_writer action_set = { 0 };
    int code = decode_resources(s, m, &direct);
    if (!code)
        code = p4rt_status(s, ss_table_find(object, entry, &old), "the entry");
    if (code)
        return code;
    bool is_const = m->table->is_const || old.is_const;
    if (is_const && m->has_action)
        return p4rt_reject(s, P4RT_PERMISSION_DENIED, "the entry's action is constant");
    const struct p4rt_profile *profile = m->table->profile < 0 ? NULL : &s->schema->profiles[m->table->profile];
    const struct p4rt_extra *was = p4rt_extra_of(s, old.controller_metadata);
    uint32_t old_set = was->action_set ? old.action.id : 0, extra = 0;
    uint64_t old_extra = old.controller_metadata, old_timeout = old.idle_timeout_ns;
    undo_entry(s, P4RT_MODIFY, m->table, &old,
               P4RT_WITH_METER | (m->has_counter ? P4RT_WITH_COUNTER : 0), is_const);
    if (is_const)
        return modify_resources(s, m, entry, &old, &direct);
    if (m->has_action) {
        code = p4rt_decode_table_action(s, m->table, m->action, &entry->action, &action_set);
    } else {
        entry->action = old.action;
        if (old.action.kind == SS_DIRECT) {  /* the table's copy may move under ss_table_modify */
            int32_t place = s->schema->action_of[old.action.action];
            memcpy(s->parameters, old.action.parameters, place < 0 ? 0 : s->schema->actions[place].parameter_bytes);
            entry->action.parameters = s->parameters;
        }
        if (old_set) {
            wire_put_raw(&action_set, was->action_set, was->action_set_length);
            wire_reserve(&action_set, 1);
        }
    }
    bool new_set = m->has_action && action_set.data;
    if (!code)
        code = extra_make(s, m, &action_set, &extra);
    if (!code) {
        entry->controller_metadata = extra;
        entry->idle_timeout_ns = (uint64_t)m->idle_timeout_ns;
        entry->last_hit_ns = old_timeout ? old.last_hit_ns : s->now_ns;
        entry->packets = old.packets;
        entry->bytes = old.bytes;
        code = p4rt_status(s, ss_table_modify(object, entry), "the entry");
    }
    if (code) {
        extra_release(s, extra);
        wire_free(&action_set);
        if (new_set)
            p4rt_remove_action_set(s, profile, entry->action.id);
        p4rt_undo_drop(s, 1);
        return code;
    }
    extra_release(s, old_extra);
    if (old_set && m->has_action)
        p4rt_remove_action_set(s, profile, old_set);
    s->idle_entries += (entry->idle_timeout_ns != 0) - (old_timeout != 0);
    if (m->has_counter)
        ss_table_set_direct_counter(object, entry, direct.packets, direct.bytes);
    if (m->table->direct_meter >= 0 && ss_table_find(object, entry, &old) == SS_OK)
        p4rt_set_meter(s, m->table, old.slot, &direct.rates);
    return P4RT_OK;
}

static int delete_entry(struct p4rt_session *s, const struct p4rt_entry_message *m, const struct ss_entry *key)
{
    struct ss_table *object = p4rt_table_object(s, m->table);
    struct ss_entry old;
    int code = p4rt_status(s, ss_table_find(object, key, &old), "the entry");
    if (!code && (m->table->is_const || old.is_const))
        code = p4rt_reject(s, P4RT_PERMISSION_DENIED, "the entry is constant");
    if (code)
        return code;
    uint64_t extra = old.controller_metadata, timeout = old.idle_timeout_ns;
    uint32_t slot = old.slot, set = p4rt_extra_of(s, extra)->action_set ? old.action.id : 0;
    undo_entry(s, P4RT_INSERT, m->table, &old, P4RT_WITH_COUNTER | P4RT_WITH_METER, false);
    code = p4rt_status(s, ss_table_remove(object, key), "the entry");
    if (code) {
        p4rt_undo_drop(s, 1);
        return code;
    }
    p4rt_set_meter(s, m->table, slot, &(struct ss_meter_rates){ 0 });
    extra_release(s, extra);
    s->idle_entries -= timeout != 0;
    if (set)
        p4rt_remove_action_set(s, &s->schema->profiles[m->table->profile], set);
    return P4RT_OK;
}

static int write_default(struct p4rt_session *s, int type, const struct p4rt_entry_message *m)
{
    struct ss_table *object = p4rt_table_object(s, m->table);
    struct direct_resources direct;
    uint32_t *place = &s->default_extras[m->table - s->schema->tables], extra = 0;
    if (type != P4RT_MODIFY)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the default entry is always there: it can only be modified");
    if (m->has_match || m->priority)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the default entry has neither match fields nor priority");
    int code = decode_resources(s, m, &direct);
    if (code)
        return code;
    if (m->has_meter)
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "the default entry has no meter");
    if (m->has_action && m->table->const_default)
        return p4rt_reject(s, P4RT_PERMISSION_DENIED, "the default action is constant");
    if (m->has_action && m->table->profile >= 0)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "a table with an action profile keeps its default action");
    struct ss_action_value action;
    if (m->has_action) {
        struct wire_writer none = { 0 };
        struct wire_reader in = wire_open(m->action);
        struct wire_field field;
        struct wire_span direct_action = { 0 };
        bool is_action = false;
        while (wire_next(&in, &field)) {
            is_action = field.key == WIRE_BYTES(1);
            direct_action = field.bytes;
        }
        if (in.malformed || !is_action)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the default entry needs an action");
        code = p4rt_decode_action(s, direct_action, m->table->actions, m->table->action_count, true, &action);
        if (!code)
            code = extra_make(s, m, &none, &extra);
        if (code)
            return code;
    }
    bool resets = !m->has_action && !m->has_counter && !m->table->const_default;
    if (s->undo) {
        size_t start = p4rt_undo_open(s, P4RT_MODIFY);
        p4rt_encode_default(s, &s->undo->bytes, P4RT_TABLE, m->table,
                            m->has_counter || resets ? P4RT_WITH_COUNTER : 0, false);
        p4rt_undo_close(s, start);
    }
    if (m->has_action)
        code = p4rt_status(s, ss_table_set_default(object, &action), "the default action");
    else if (!m->table->const_default)
        code = p4rt_status(s, ss_table_set_default(object, NULL), "the default action");
    if (code) {
        extra_release(s, extra);
        p4rt_undo_drop(s, 1);
        return code;
    }
    extra_release(s, *place);
    *place = extra;
    if (m->has_counter)
        ss_table_set_direct_counter(object, NULL, direct.packets, direct.bytes);
    else if (resets && m->table->has_counter)
        ss_table_set_direct_counter(object, NULL, 0, 0);
    return P4RT_OK;
}

int p4rt_write_table_entry(struct p4rt_session *s, int type, struct wire_span message, struct wire_span entity)
{
    struct p4rt_entry_message m;
    struct ss_entry entry;
    int code = p4rt_decode_entry(s, message, &m);
    if (code)
        return code;
    if (!m.table)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "table_id is missing");
    if (m.is_const)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "is_const is read, not written");
    if (m.is_default)
        return write_default(s, type, &m);
    if (m.table->is_const && type != P4RT_MODIFY)
        return p4rt_reject(s, P4RT_PERMISSION_DENIED, "the table is constant");
    code = p4rt_decode_key(s, &m, &entry);
    if (code)
        return code;
    if (type == P4RT_INSERT)
        return insert_entry(s, &m, &entry, entity);
    return type == P4RT_MODIFY ? modify_entry(s, &m, &entry) : delete_entry(s, &m, &entry);
}
