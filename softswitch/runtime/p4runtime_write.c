/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * P4Runtime Write: updates applied one by one, each whole or not at all.
 *
 * For batches that must be all or nothing, every update first writes down its inverse, as an Update in the same wire
 * format; undoing is applying the inverses, newest first.
 */
#include "p4runtime_session.h"

#include <stdio.h>

enum { MAX_WEIGHT_SUM = 1 << 20 };

/* Undo. */

static size_t undo_open(struct p4rt_session *s, int type)
{
    struct p4rt_undo *undo = s->undo;
    if (undo->count == undo->capacity) {
        uint32_t capacity = undo->capacity ? undo->capacity * 2 : 64;
        size_t *starts = realloc(undo->starts, capacity * sizeof *starts);
        if (!starts) {
            undo->failed = true;
            return 0;
        }
        undo->starts = starts;
        undo->capacity = capacity;
    }
    undo->starts[undo->count++] = undo->bytes.length;
    wire_put_uint(&undo->bytes, 1, (uint64_t)type);
    return wire_begin(&undo->bytes, 2);
}

static void undo_close(struct p4rt_session *s, size_t entity)
{
    wire_end(&s->undo->bytes, entity);
    s->undo->failed |= s->undo->bytes.failed;
}

/* The last `count` inverses belong to an update that did not happen. */
static void undo_drop(struct p4rt_session *s, uint32_t count)
{
    if (s->undo && count && s->undo->count >= count) {
        s->undo->count -= count;
        s->undo->bytes.length = s->undo->starts[s->undo->count];
    }
}

/* The inverse of an INSERT: a DELETE needs the key only and ignores the rest. */
static void undo_insert(struct p4rt_session *s, struct wire_span entity)
{
    if (!s->undo)
        return;
    size_t start = undo_open(s, P4RT_DELETE);
    wire_put_raw(&s->undo->bytes, entity.data, entity.length);
    undo_close(s, start);
}

static bool undo_ready(struct p4rt_session *s)
{
    return !s->undo || !s->undo->failed;
}

/* Extras. */

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

/* Actions. */

static int decode_action(struct p4rt_session *s, struct wire_span message, const struct p4rt_action_ref *refs, uint32_t count,
                         bool as_default, struct ss_action_value *out)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t id = 0, given = 0;
    while (wire_next(&in, &field))
        if (field.key == WIRE_VARINT(1))
            id = (uint32_t)field.value;
    if (in.malformed)
        return p4rt_malformed(s, "action");
    const struct p4rt_action *action = NULL;
    const struct p4rt_action_ref *ref = NULL;
    for (uint32_t i = 0; i < count && !ref; i++)
        if (s->schema->actions[refs[i].action].id == id) {
            ref = &refs[i];
            action = &s->schema->actions[ref->action];
        }
    if (!ref)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "action %u is none of the table's", id);
    if (ref->scope == (as_default ? 1 : 2))
        return p4rt_reject(s, P4RT_PERMISSION_DENIED, "action %u is for %s only", id,
                           as_default ? "entries" : "the default entry");
    in = wire_open(message);
    uint64_t seen[4] = { 0 };
    while (wire_next(&in, &field)) {
        if (field.key != WIRE_BYTES(4))
            continue;
        struct wire_reader inner = wire_open(field.bytes);
        struct wire_field part;
        uint32_t parameter_id = 0, i = 0;
        struct wire_span value = { field.bytes.data, 0 };
        while (wire_next(&inner, &part)) {
            if (part.key == WIRE_VARINT(2))
                parameter_id = (uint32_t)part.value;
            else if (part.key == WIRE_BYTES(3))
                value = part.bytes;
        }
        if (inner.malformed)
            return p4rt_malformed(s, "action parameter");
        while (i < action->parameter_count && action->parameters[i].id != parameter_id)
            i++;
        if (i == action->parameter_count)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "action %u has no parameter %u", id, parameter_id);
        if (i < 256 && seen[i / 64] >> i % 64 & 1)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "action %u: parameter %u is given twice", id, parameter_id);
        if (i < 256)
            seen[i / 64] |= 1ull << i % 64;
        const struct p4rt_parameter *parameter = &action->parameters[i];
        int code = p4rt_decode_value(s, value, parameter->bits, parameter->bytes, s->parameters + parameter->offset,
                                     "action parameter", parameter_id);
        if (code)
            return code;
        given++;
    }
    if (given != action->parameter_count)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "action %u: %u of %u parameters given", id, given,
                           action->parameter_count);
    *out = (struct ss_action_value){ .kind = SS_DIRECT, .action = ref->index, .parameters = s->parameters };
    return P4RT_OK;
}

static struct ss_profile *profile_object(struct p4rt_session *s, const struct p4rt_profile *profile)
{
    return s->objects->profiles[profile->index];
}

static struct p4rt_selector_use *selector_use(struct p4rt_session *s, const struct p4rt_profile *profile)
{
    return &s->selectors[profile - s->schema->profiles];
}

/* A port watched for liveness, from either form of watch_kind. */
static int decode_watch(struct p4rt_session *s, const struct wire_field *field, struct ss_member_ref *ref)
{
    uint64_t port = field->value;
    if (field->key == WIRE_BYTES(4)) {
        if (!field->bytes.length)
            return P4RT_OK;
        uint8_t bytes[4];
        int code = p4rt_decode_value(s, field->bytes, 32, 4, bytes, "watch_port of member", ref->member);
        if (code)
            return code;
        port = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    } else if (!port) {
        return P4RT_OK;
    }
    if (port >= SS_PORTS || !ss_port_kind(s->ports, (uint32_t)port))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "watch_port %llu is no port of this switch", (unsigned long long)port);
    ref->has_watch = true;
    ref->watch_port = (uint32_t)port;
    return P4RT_OK;
}

static int check_weight(struct p4rt_session *s, const struct p4rt_profile *profile, int32_t *weight)
{
    if (profile->weights_disallowed) {
        if (*weight)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "weights are not allowed here");
        *weight = 1;
    } else if (*weight <= 0) {
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "weight %d is not above 0", *weight);
    } else if (*weight > MAX_WEIGHT_SUM) {
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "weight %d is above %d", *weight, MAX_WEIGHT_SUM);
    }
    if (profile->sum_of_members && profile->max_member_weight && (uint32_t)*weight > profile->max_member_weight)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "weight %d is above max_member_weight %u", *weight,
                           profile->max_member_weight);
    return P4RT_OK;
}

static int check_group_size(struct p4rt_session *s, const struct p4rt_profile *profile, const struct ss_member_ref *members,
                            uint32_t count, uint32_t max_size, int code)
{
    uint64_t sum = count;
    if (!profile->sum_of_members) {
        sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += (uint32_t)members[i].weight;
    }
    uint64_t limit = max_size ? max_size : profile->max_group_size ? profile->max_group_size : MAX_WEIGHT_SUM;
    if (sum > limit)
        return p4rt_reject(s, code, "the group's size %llu is above %llu", (unsigned long long)sum, (unsigned long long)limit);
    return P4RT_OK;
}

static void remove_action_set(struct p4rt_session *s, const struct p4rt_profile *profile, uint32_t group)
{
    const struct ss_member_ref *refs;
    uint32_t count, max_size;
    struct ss_profile *object = profile_object(s, profile);
    if (ss_group_find(object, group, &refs, &count, &max_size) != SS_OK)
        return;
    uint32_t *ids = malloc((count ? count : 1) * sizeof *ids);
    for (uint32_t i = 0; ids && i < count; i++)
        ids[i] = refs[i].member;
    ss_group_remove(object, group);
    for (uint32_t i = 0; ids && i < count; i++)
        ss_member_remove(object, ids[i]);
    free(ids);
    selector_use(s, profile)->action_sets--;
}

static void encode_action_set_member(struct p4rt_session *s, struct wire_writer *out, const struct p4rt_profile *profile,
                                     const struct p4rt_action *action, const struct ss_member_ref *ref)
{
    size_t start = wire_begin(out, 1), inner = wire_begin(out, 1);
    wire_put_uint(out, 1, action->id);
    for (uint32_t i = 0; i < action->parameter_count; i++) {
        size_t parameter = wire_begin(out, 4);
        wire_put_uint(out, 2, action->parameters[i].id);
        p4rt_encode_value(out, 3, s->parameters + action->parameters[i].offset, action->parameters[i].bytes);
        wire_end(out, parameter);
    }
    wire_end(out, inner);
    wire_put_uint(out, 2, profile->weights_disallowed ? 0 : (uint32_t)ref->weight);
    if (ref->has_watch) {
        uint8_t port[4] = { (uint8_t)(ref->watch_port >> 24), (uint8_t)(ref->watch_port >> 16),
                            (uint8_t)(ref->watch_port >> 8), (uint8_t)ref->watch_port };
        p4rt_encode_value(out, 4, port, 4);
    }
    wire_end(out, start);
}

/* One-shot programming: members and a group under ids of our own, and the canonical message for reads. */
static int insert_action_set(struct p4rt_session *s, struct wire_span message, const struct p4rt_profile *profile,
                             struct ss_action_value *out, struct wire_writer *canonical)
{
    struct ss_profile *object = profile_object(s, profile);
    struct p4rt_selector_use *use = selector_use(s, profile);
    struct ss_action_value member;
    uint64_t cursor = 0;
    uint32_t id, count = 0, mode = 0, semantics = 0;
    if (!profile->has_selector)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "an action set needs an action selector");
    if (!use->action_sets && (ss_member_next(object, &cursor, &id, &member) || (cursor = 0, ss_group_next(object, &cursor, &id))))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with members and groups already");
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    bool group_action = false;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_BYTES(1): count++; break;
        case WIRE_VARINT(2): mode = (uint32_t)field.value; break;
        case WIRE_VARINT(3): semantics = (uint32_t)field.value; break;
        case WIRE_BYTES(5): group_action = true; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "action set");
    if (mode || group_action || (semantics && semantics != (profile->sum_of_members ? 2u : 1u)))
        return p4rt_reject(s, P4RT_UNIMPLEMENTED, "action sets follow their action selector; group actions are not known");
    struct ss_member_ref *refs = calloc(count ? count : 1, sizeof *refs);
    if (!refs)
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
    uint32_t made = 0;
    int code = P4RT_OK;
    in = wire_open(message);
    while (!code && wire_next(&in, &field)) {
        if (field.key != WIRE_BYTES(1))
            continue;
        struct ss_member_ref *ref = &refs[made];
        struct wire_span action = { field.bytes.data, 0 };
        struct wire_reader inner = wire_open(field.bytes);
        struct wire_field part;
        while (!code && wire_next(&inner, &part)) {
            switch (part.key) {
            case WIRE_BYTES(1): action = part.bytes; break;
            case WIRE_VARINT(2): ref->weight = (int32_t)part.value; break;
            case WIRE_VARINT(3):
            case WIRE_BYTES(4): code = decode_watch(s, &part, ref); break;
            }
        }
        if (!code && inner.malformed)
            code = p4rt_malformed(s, "action of an action set");
        if (!code)
            code = check_weight(s, profile, &ref->weight);
        if (!code)
            code = decode_action(s, action, profile->actions, profile->action_count, false, &member);
        if (code)
            break;
        do
            ref->member = ++use->next_member;
        while (ref->member == 0 || ss_member_find(object, ref->member, &(struct ss_action_value){ 0 }) == SS_OK);
        code = p4rt_status(s, ss_member_insert(object, ref->member, &member), "action set");
        if (code)
            break;
        encode_action_set_member(s, canonical, profile, &s->schema->actions[s->schema->action_of[member.action]], ref);
        made++;
    }
    if (!code)
        code = check_group_size(s, profile, refs, made, 0, P4RT_INVALID_ARGUMENT);
    if (!code && !wire_reserve(canonical, 1))  /* an empty set is remembered too */
        code = p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
    if (!code) {
        const struct ss_member_ref *present;
        uint32_t size, max_size;
        do
            id = ++use->next_group;
        while (id == 0 || ss_group_find(object, id, &present, &size, &max_size) == SS_OK);
        code = p4rt_status(s, ss_group_insert(object, id, 0, refs, made), "action set");
    }
    if (code) {
        for (uint32_t i = 0; i < made; i++)
            ss_member_remove(object, refs[i].member);
        wire_free(canonical);
    } else {
        use->action_sets++;
        *out = (struct ss_action_value){ .kind = SS_GROUP, .id = id };
    }
    free(refs);
    return code;
}

static int decode_table_action(struct p4rt_session *s, const struct p4rt_table *table, struct wire_span message,
                               struct ss_action_value *out, struct wire_writer *action_set)
{
    const struct p4rt_profile *profile = table->profile < 0 ? NULL : &s->schema->profiles[table->profile];
    struct wire_reader in = wire_open(message);
    struct wire_field field, kind = { 0 };
    while (wire_next(&in, &field))
        if (field.key == WIRE_BYTES(1) || field.key == WIRE_VARINT(2) || field.key == WIRE_VARINT(3) ||
            field.key == WIRE_BYTES(4))
            kind = field;
    if (in.malformed)
        return p4rt_malformed(s, "table action");
    if (!kind.key)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the action is missing");
    if (kind.key == WIRE_BYTES(1)) {
        if (profile)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has an action profile: name a member, a group or a set");
        return decode_action(s, kind.bytes, table->actions, table->action_count, false, out);
    }
    if (!profile)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no action profile: name an action");
    if (kind.key == WIRE_BYTES(4))
        return insert_action_set(s, kind.bytes, profile, out, action_set);
    uint32_t id = (uint32_t)kind.value;
    bool is_group = kind.key == WIRE_VARINT(3), found;
    if (is_group && !profile->has_selector)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the action profile has no selector, so no groups");
    if (selector_use(s, profile)->action_sets)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with action sets");
    if (is_group) {
        const struct ss_member_ref *refs;
        uint32_t count, max_size;
        found = ss_group_find(profile_object(s, profile), id, &refs, &count, &max_size) == SS_OK;
    } else {
        found = ss_member_find(profile_object(s, profile), id, &(struct ss_action_value){ 0 }) == SS_OK;
    }
    if (!found)
        return p4rt_reject(s, P4RT_NOT_FOUND, "%s %u does not exist", is_group ? "group" : "member", id);
    *out = (struct ss_action_value){ .kind = is_group ? SS_GROUP : SS_MEMBER, .id = id };
    return P4RT_OK;
}

/* Direct resources. */

static int decode_counter_data(struct p4rt_session *s, struct wire_span message, uint64_t *packets, uint64_t *bytes)
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

static int decode_meter_config(struct p4rt_session *s, bool present, struct wire_span message, uint32_t type,
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
    int code = decode_meter_config(s, m->has_meter, m->meter, table->meter_type, &out->rates);
    return code ? code : decode_counter_data(s, m->counter, &out->packets, &out->bytes);
}

static void set_meter(struct p4rt_session *s, const struct p4rt_table *table, uint32_t slot, const struct ss_meter_rates *rates)
{
    if (table->direct_meter >= 0)
        ss_meter_set(s->state, (uint32_t)table->direct_meter, slot, rates);
}

/* Table entries. */

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
        code = decode_table_action(s, m->table, m->action, &entry->action, &action_set);
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
            remove_action_set(s, &s->schema->profiles[m->table->profile], entry->action.id);
        return code;
    }
    s->idle_entries += entry->idle_timeout_ns != 0;
    if (m->has_counter)
        ss_table_set_direct_counter(object, entry, direct.packets, direct.bytes);
    if (m->table->direct_meter >= 0) {
        struct ss_entry stored;
        if (ss_table_find(object, entry, &stored) == SS_OK)
            set_meter(s, m->table, stored.slot, &direct.rates);
    }
    undo_insert(s, entity);
    return P4RT_OK;
}

/* An entry whose action is constant: its direct resources may still change. */
static int modify_resources(struct p4rt_session *s, const struct p4rt_entry_message *m, const struct ss_entry *key,
                            const struct ss_entry *old, const struct direct_resources *direct)
{
    if (m->has_counter)
        ss_table_set_direct_counter(p4rt_table_object(s, m->table), key, direct->packets, direct->bytes);
    set_meter(s, m->table, old->slot, &direct->rates);
    return P4RT_OK;
}

static void undo_entry(struct p4rt_session *s, int type, const struct p4rt_table *table, const struct ss_entry *old,
                       uint32_t parts, bool without_action)
{
    if (!s->undo)
        return;
    size_t start = undo_open(s, type);
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
    undo_close(s, start);
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
        code = decode_table_action(s, m->table, m->action, &entry->action, &action_set);
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
            remove_action_set(s, profile, entry->action.id);
        undo_drop(s, 1);
        return code;
    }
    extra_release(s, old_extra);
    if (old_set && m->has_action)
        remove_action_set(s, profile, old_set);
    s->idle_entries += (entry->idle_timeout_ns != 0) - (old_timeout != 0);
    if (m->has_counter)
        ss_table_set_direct_counter(object, entry, direct.packets, direct.bytes);
    if (m->table->direct_meter >= 0 && ss_table_find(object, entry, &old) == SS_OK)
        set_meter(s, m->table, old.slot, &direct.rates);
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
        undo_drop(s, 1);
        return code;
    }
    set_meter(s, m->table, slot, &(struct ss_meter_rates){ 0 });
    extra_release(s, extra);
    s->idle_entries -= timeout != 0;
    if (set)
        remove_action_set(s, &s->schema->profiles[m->table->profile], set);
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
        code = decode_action(s, direct_action, m->table->actions, m->table->action_count, true, &action);
        if (!code)
            code = extra_make(s, m, &none, &extra);
        if (code)
            return code;
    }
    bool resets = !m->has_action && !m->has_counter && !m->table->const_default;
    if (s->undo) {
        size_t start = undo_open(s, P4RT_MODIFY);
        p4rt_encode_default(s, &s->undo->bytes, P4RT_TABLE, m->table,
                            m->has_counter || resets ? P4RT_WITH_COUNTER : 0, false);
        undo_close(s, start);
    }
    if (m->has_action)
        code = p4rt_status(s, ss_table_set_default(object, &action), "the default action");
    else if (!m->table->const_default)
        code = p4rt_status(s, ss_table_set_default(object, NULL), "the default action");
    if (code) {
        extra_release(s, extra);
        undo_drop(s, 1);
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

static int write_table_entry(struct p4rt_session *s, int type, struct wire_span message, struct wire_span entity)
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

/* Direct counters and meters by themselves. */

static int write_direct(struct p4rt_session *s, int type, struct wire_span message, bool is_meter)
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
    code = is_meter ? decode_meter_config(s, has_data, data, m.table->meter_type, &rates)
                    : decode_counter_data(s, data, &packets, &bytes);
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
        size_t start = undo_open(s, P4RT_MODIFY);
        struct wire_writer *out = &s->undo->bytes;
        size_t direct = wire_begin(out, is_meter ? P4RT_DIRECT_METER : P4RT_DIRECT_COUNTER);
        wire_put_bytes(out, 1, entry_span.data, entry_span.length);
        if (is_meter)
            p4rt_encode_meter_config(out, 2, &s->objects->meters[m.table->direct_meter].rates[old.slot]);
        else
            p4rt_encode_counter_data(out, 2, old.packets, old.bytes);
        wire_end(out, direct);
        undo_close(s, start);
    }
    if (is_meter)
        set_meter(s, m.table, old.slot, &rates);
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

static int write_counter(struct p4rt_session *s, int type, struct wire_span message)
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
        code = decode_counter_data(s, m.data, &packets, &bytes);
    if (code || !m.has_data)
        return code;
    struct ss_counter *object = &s->objects->counters[counter->index];
    uint32_t first = index < 0 ? 0 : (uint32_t)index, end = index < 0 ? counter->size : first + 1;
    for (uint32_t i = first; i < end; i++) {
        if (s->undo) {
            size_t start = undo_open(s, P4RT_MODIFY);
            p4rt_encode_counter(s, &s->undo->bytes, counter, i);
            undo_close(s, start);
        }
        object->cells[i].packets = packets;
        object->cells[i].bytes = bytes;
    }
    return P4RT_OK;
}

static int write_meter(struct p4rt_session *s, int type, struct wire_span message)
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
        code = decode_meter_config(s, m.has_data, m.data, meter->type, &rates);
    if (code)
        return code;
    uint32_t first = index < 0 ? 0 : (uint32_t)index, end = index < 0 ? meter->size : first + 1;
    for (uint32_t i = first; !code && i < end; i++) {
        if (s->undo) {
            size_t start = undo_open(s, P4RT_MODIFY);
            p4rt_encode_meter(s, &s->undo->bytes, meter, i);
            undo_close(s, start);
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

static int write_register(struct p4rt_session *s, int type, struct wire_span message)
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
            size_t start = undo_open(s, P4RT_MODIFY);
            p4rt_encode_register(s, &s->undo->bytes, reg, i);  /* uses s->cell */
            undo_close(s, start);
        }
        decode_cell(s, reg, m.data);
    }
    for (uint32_t i = first; !code && i < end; i++)
        code = p4rt_status(s, ss_register_write(s->state, reg->index, i, s->cell), "the register's value");
    return code;
}

static int write_value_set(struct p4rt_session *s, int type, struct wire_span message)
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
            size_t start = undo_open(s, P4RT_MODIFY);
            p4rt_encode_value_set(s, &s->undo->bytes, set);
            undo_close(s, start);
        }
        code = p4rt_status(s, ss_value_set_write(s->objects->value_sets[set->index], count, values, masks), "the value set");
        undo_drop(s, code != P4RT_OK);
    }
    free(values);
    return code;
}

/* Action profile members and groups. */

static int decode_profile(struct p4rt_session *s, uint32_t id, const struct p4rt_profile **profile)
{
    *profile = p4rt_find_profile(s->schema, id);
    return *profile ? P4RT_OK : p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no action profile has id %u", id);
}

static int write_member(struct p4rt_session *s, int type, struct wire_span message, struct wire_span entity)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t profile_id = 0, id = 0;
    struct wire_span action = { 0 };
    bool has_action = false;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): profile_id = (uint32_t)field.value; break;
        case WIRE_VARINT(2): id = (uint32_t)field.value; break;
        case WIRE_BYTES(3): action = field.bytes; has_action = true; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "action profile member");
    const struct p4rt_profile *profile;
    int code = decode_profile(s, profile_id, &profile);
    if (code)
        return code;
    if (!id)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "member_id is missing");
    if (selector_use(s, profile)->action_sets)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with action sets");
    struct ss_profile *object = profile_object(s, profile);
    struct ss_action_value old, value;
    bool exists = ss_member_find(object, id, &old) == SS_OK;
    if (type == P4RT_INSERT ? exists : !exists)
        return p4rt_reject(s, exists ? P4RT_ALREADY_EXISTS : P4RT_NOT_FOUND, "member %u %s", id,
                           exists ? "exists already" : "does not exist");
    if (type != P4RT_DELETE) {
        if (!has_action)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the member's action is missing");
        code = decode_action(s, action, profile->actions, profile->action_count, false, &value);
        if (code)
            return code;
    }
    if (type != P4RT_INSERT && s->undo) {
        size_t start = undo_open(s, type == P4RT_MODIFY ? P4RT_MODIFY : P4RT_INSERT);
        p4rt_encode_member(s, &s->undo->bytes, profile, id, &old);
        undo_close(s, start);
    }
    char what[32];
    snprintf(what, sizeof what, "member %u", id);
    code = p4rt_status(s, type == P4RT_INSERT   ? ss_member_insert(object, id, &value)
                          : type == P4RT_MODIFY ? ss_member_modify(object, id, &value)
                                                : ss_member_remove(object, id), what);
    if (!code && type == P4RT_INSERT)
        undo_insert(s, entity);
    undo_drop(s, code && type != P4RT_INSERT);
    return code;
}

static int decode_group_members(struct p4rt_session *s, struct wire_span message, const struct p4rt_profile *profile,
                                struct ss_member_ref *refs)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field, part;
    uint32_t count = 0;
    while (wire_next(&in, &field)) {
        if (field.key != WIRE_BYTES(3))
            continue;
        struct ss_member_ref *ref = &refs[count];
        struct wire_reader inner = wire_open(field.bytes);
        int code = P4RT_OK;
        while (!code && wire_next(&inner, &part)) {
            switch (part.key) {
            case WIRE_VARINT(1): ref->member = (uint32_t)part.value; break;
            case WIRE_VARINT(2): ref->weight = (int32_t)part.value; break;
            case WIRE_VARINT(3):
            case WIRE_BYTES(4): code = decode_watch(s, &part, ref); break;
            }
        }
        if (!code && inner.malformed)
            code = p4rt_malformed(s, "group member");
        if (!code)
            code = check_weight(s, profile, &ref->weight);
        if (!code && ss_member_find(profile_object(s, profile), ref->member, &(struct ss_action_value){ 0 }) != SS_OK)
            code = p4rt_reject(s, P4RT_NOT_FOUND, "member %u does not exist", ref->member);
        for (uint32_t i = 0; !code && i < count; i++)
            if (refs[i].member == ref->member)
                code = p4rt_reject(s, P4RT_INVALID_ARGUMENT, "member %u is given twice", ref->member);
        if (code)
            return code;
        count++;
    }
    return P4RT_OK;
}

static int write_group(struct p4rt_session *s, int type, struct wire_span message, struct wire_span entity)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t profile_id = 0, id = 0, count = 0;
    int32_t max_size = 0;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): profile_id = (uint32_t)field.value; break;
        case WIRE_VARINT(2): id = (uint32_t)field.value; break;
        case WIRE_BYTES(3): count++; break;
        case WIRE_VARINT(4): max_size = (int32_t)field.value; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "action profile group");
    const struct p4rt_profile *profile;
    int code = decode_profile(s, profile_id, &profile);
    if (code)
        return code;
    if (!profile->has_selector)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the action profile has no selector, so no groups");
    if (!id)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "group_id is missing");
    if (selector_use(s, profile)->action_sets)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with action sets");
    struct ss_profile *object = profile_object(s, profile);
    const struct ss_member_ref *present;
    uint32_t present_count, present_max;
    bool exists = ss_group_find(object, id, &present, &present_count, &present_max) == SS_OK;
    if (type == P4RT_INSERT ? exists : !exists)
        return p4rt_reject(s, exists ? P4RT_ALREADY_EXISTS : P4RT_NOT_FOUND, "group %u %s", id,
                           exists ? "exists already" : "does not exist");
    struct ss_member_ref *refs = NULL;
    if (type != P4RT_DELETE) {
        if (max_size < 0 || (profile->max_group_size && (uint32_t)max_size > profile->max_group_size))
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "max_size %d is not in 0..%u", max_size, profile->max_group_size);
        if (type == P4RT_MODIFY && (uint32_t)max_size != present_max)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "max_size was %u and cannot change", present_max);
        if (!(refs = calloc(count ? count : 1, sizeof *refs)))
            return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
        code = decode_group_members(s, message, profile, refs);
        if (!code)
            code = check_group_size(s, profile, refs, count, (uint32_t)max_size, P4RT_RESOURCE_EXHAUSTED);
        if (code) {
            free(refs);
            return code;
        }
    }
    if (type != P4RT_INSERT && s->undo) {
        size_t start = undo_open(s, type == P4RT_MODIFY ? P4RT_MODIFY : P4RT_INSERT);
        p4rt_encode_group(s, &s->undo->bytes, profile, id);
        undo_close(s, start);
    }
    char what[32];
    snprintf(what, sizeof what, "group %u", id);
    code = p4rt_status(s, type == P4RT_INSERT   ? ss_group_insert(object, id, (uint32_t)max_size, refs, count)
                          : type == P4RT_MODIFY ? ss_group_modify(object, id, refs, count)
                                                : ss_group_remove(object, id), what);
    free(refs);
    if (!code && type == P4RT_INSERT)
        undo_insert(s, entity);
    undo_drop(s, code && type != P4RT_INSERT);
    return code;
}

/* One update. */

int p4rt_apply(struct p4rt_session *s, int type, uint32_t kind, struct wire_span content, struct wire_span entity)
{
    if (type < P4RT_INSERT || type > P4RT_DELETE)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the update's type is missing");
    switch (kind) {
    case P4RT_TABLE: return write_table_entry(s, type, content, entity);
    case P4RT_MEMBER: return write_member(s, type, content, entity);
    case P4RT_GROUP: return write_group(s, type, content, entity);
    case P4RT_METER: return write_meter(s, type, content);
    case P4RT_DIRECT_METER: return write_direct(s, type, content, true);
    case P4RT_COUNTER: return write_counter(s, type, content);
    case P4RT_DIRECT_COUNTER: return write_direct(s, type, content, false);
    case P4RT_VALUE_SET: return write_value_set(s, type, content);
    case P4RT_REGISTER: return write_register(s, type, content);
    case P4RT_EXTERN: return p4rt_reject(s, P4RT_UNIMPLEMENTED, "no further externs are known");
    default: return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the update has no entity");
    }
}

/* Batches. */

enum { CONTINUE_ON_ERROR = 0, ROLLBACK_ON_ERROR = 1, DATAPLANE_ATOMIC = 2 };

struct p4rt_batch {
    struct p4rt_session *s;
    struct wire_reader in;
    struct p4rt_undo undo;
    struct p4rt_errors errors;
    int32_t atomicity;
    uint32_t index, count;
    bool stopped;
};

bool p4rt_write_head(const uint8_t *request, size_t length, struct p4rt_head *head)
{
    *head = (struct p4rt_head){ 0 };
    struct wire_reader in = wire_open((struct wire_span){ request, length });
    struct wire_field field, part;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): head->device_id = field.value; break;
        case WIRE_VARINT(2): head->role_id = field.value; break;
        case WIRE_BYTES(3): {
            struct wire_reader inner = wire_open(field.bytes);
            head->has_election = true;
            while (wire_next(&inner, &part)) {
                if (part.key == WIRE_VARINT(1))
                    head->election_high = part.value;
                else if (part.key == WIRE_VARINT(2))
                    head->election_low = part.value;
            }
            if (inner.malformed)
                return false;
            break;
        }
        case WIRE_BYTES(4): head->update_count++; break;
        case WIRE_VARINT(5): head->atomicity = (int32_t)field.value; break;
        case WIRE_BYTES(6): head->role = field.bytes.data; head->role_length = field.bytes.length; break;
        }
    }
    return !in.malformed;
}

struct p4rt_batch *p4rt_write_begin(struct p4rt_session *s, const uint8_t *request, size_t length)
{
    struct p4rt_head head;
    struct p4rt_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    p4rt_write_head(request, length, &head);
    batch->s = s;
    batch->in = wire_open((struct wire_span){ request, length });
    batch->atomicity = head.atomicity;
    batch->count = head.update_count;
    return batch;
}

void p4rt_write_fail(struct p4rt_batch *batch, uint32_t index, int32_t code, const char *message)
{
    p4rt_errors_add(&batch->errors, index, code, message);
    batch->stopped = batch->atomicity != CONTINUE_ON_ERROR;
}

/* Read an Update and apply it; true: it is for the caller, described in *item. */
static bool apply_update(struct p4rt_batch *batch, struct wire_span update, struct p4rt_item *item)
{
    struct p4rt_session *s = batch->s;
    struct wire_reader in = wire_open(update);
    struct wire_field field;
    struct wire_span entity = { update.data, 0 }, content = { update.data, 0 };
    int type = 0;
    bool malformed = false;
    while (wire_next(&in, &field)) {
        if (field.key == WIRE_VARINT(1))
            type = (int)field.value;
        else if (field.key == WIRE_BYTES(2))
            entity = field.bytes;
    }
    uint32_t kind = p4rt_entity_kind(entity, &content, &malformed), index = batch->index++;
    int code;
    if (in.malformed || malformed) {
        code = p4rt_malformed(s, "update");
    } else if (kind == P4RT_REPLICATION || kind == P4RT_DIGEST) {
        if (batch->atomicity != DATAPLANE_ATOMIC) {
            *item = (struct p4rt_item){ index, type, kind, entity.data, entity.length };
            return true;
        }
        code = p4rt_reject(s, P4RT_UNIMPLEMENTED, "replication and digests do not take part in a dataplane-atomic batch");
    } else {
        code = p4rt_apply(s, type, kind, content, entity);
    }
    if (code)
        p4rt_write_fail(batch, index, code, s->message);
    else if (!undo_ready(s))
        p4rt_write_fail(batch, index, P4RT_RESOURCE_EXHAUSTED, "out of memory to make the batch undoable");
    return false;
}

/* Before the lock is left: the next packet finds all tables ready. */
static void settle(struct p4rt_session *s)
{
    for (uint32_t t = 0; t < s->objects->table_count; t++)
        ss_table_settle(s->objects->tables[t]);
}

static void roll_back(struct p4rt_session *s, struct p4rt_undo *undo, bool slices)
{
    s->undo = NULL;
    for (uint32_t i = undo->count, n = 0; i-- > 0; n++) {
        size_t end = i + 1 < undo->count ? undo->starts[i + 1] : undo->bytes.length;
        struct wire_span update = { undo->bytes.data + undo->starts[i], end - undo->starts[i] };
        struct wire_reader in = wire_open(update);
        struct wire_field field;
        struct wire_span entity = { 0 }, content = { 0 };
        int type = 0;
        bool malformed;
        while (wire_next(&in, &field)) {
            if (field.key == WIRE_VARINT(1))
                type = (int)field.value;
            else
                entity = field.bytes;
        }
        p4rt_apply(s, type, p4rt_entity_kind(entity, &content, &malformed), content, entity);
        if (slices && n % P4RT_SLICE == P4RT_SLICE - 1) {
            settle(s);
            ss_unlock(s->sw);
            ss_lock(s->sw);
        }
    }
    undo->count = 0;
}

int p4rt_write_step(struct p4rt_batch *batch, struct p4rt_item *item)
{
    struct p4rt_session *s = batch->s;
    bool atomic = batch->atomicity == DATAPLANE_ATOMIC, mine = false, more = true;
    struct wire_field field;
    s->undo = batch->atomicity == CONTINUE_ON_ERROR ? NULL : &batch->undo;
    while (more && !mine && !batch->stopped) {
        s->now_ns = ss_now(s->sw);
        ss_lock(s->sw);
        for (uint32_t n = 0; (n < P4RT_SLICE || atomic) && !mine && !batch->stopped; n++) {
            do
                more = wire_next(&batch->in, &field);
            while (more && field.key != WIRE_BYTES(4));
            if (!more)
                break;
            mine = apply_update(batch, field.bytes, item);
        }
        if (atomic && batch->errors.count)
            roll_back(s, &batch->undo, false);
        settle(s);
        ss_unlock(s->sw);
    }
    s->undo = NULL;
    return mine;
}

bool p4rt_write_finish(struct p4rt_batch *batch)
{
    if (batch->atomicity == CONTINUE_ON_ERROR || !batch->errors.count)
        return false;
    ss_lock(batch->s->sw);
    roll_back(batch->s, &batch->undo, true);
    settle(batch->s);
    ss_unlock(batch->s->sw);
    uint32_t culprit = batch->errors.list[0].index;
    char reason[64];
    snprintf(reason, sizeof reason, "not applied: update %u failed", culprit);
    for (uint32_t i = 0; i < batch->count; i++)
        if (i != culprit)
            p4rt_errors_add(&batch->errors, i, P4RT_ABORTED, reason);
    return true;
}

const struct p4rt_error *p4rt_write_errors(const struct p4rt_batch *batch, uint32_t *count)
{
    *count = batch->errors.count;
    return batch->errors.list;
}

void p4rt_write_free(struct p4rt_batch *batch)
{
    if (!batch)
        return;
    wire_free(&batch->undo.bytes);
    free(batch->undo.starts);
    free(batch->errors.list);
    free(batch);
}
