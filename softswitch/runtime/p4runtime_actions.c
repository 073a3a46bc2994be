/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Write: the action of an entry, by itself, by reference to a member or group, or as a one-shot action set.
 */
#include "p4runtime_write.h"

int p4rt_decode_action(struct p4rt_session *s, struct wire_span message, const struct p4rt_action_ref *refs, uint32_t count,
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

void p4rt_remove_action_set(struct p4rt_session *s, const struct p4rt_profile *profile, uint32_t group)
{
    const struct ss_member_ref *refs;
    uint32_t count, max_size;
    struct ss_profile *object = p4rt_profile_object(s, profile);
    if (ss_group_find(object, group, &refs, &count, &max_size) != SS_OK)
        return;
    uint32_t *ids = malloc((count ? count : 1) * sizeof *ids);
    for (uint32_t i = 0; ids && i < count; i++)
        ids[i] = refs[i].member;
    ss_group_remove(object, group);
    for (uint32_t i = 0; ids && i < count; i++)
        ss_member_remove(object, ids[i]);
    free(ids);
    p4rt_selector_use_of(s, profile)->action_sets--;
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
    struct ss_profile *object = p4rt_profile_object(s, profile);
    struct p4rt_selector_use *use = p4rt_selector_use_of(s, profile);
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
            case WIRE_BYTES(4): code = p4rt_decode_watch(s, &part, ref); break;
            }
        }
        if (!code && inner.malformed)
            code = p4rt_malformed(s, "action of an action set");
        if (!code)
            code = p4rt_check_weight(s, profile, &ref->weight);
        if (!code)
            code = p4rt_decode_action(s, action, profile->actions, profile->action_count, false, &member);
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
        code = p4rt_check_group_size(s, profile, refs, made, 0, P4RT_INVALID_ARGUMENT);
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

int p4rt_decode_table_action(struct p4rt_session *s, const struct p4rt_table *table, struct wire_span message,
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
        return p4rt_decode_action(s, kind.bytes, table->actions, table->action_count, false, out);
    }
    if (!profile)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the table has no action profile: name an action");
    if (kind.key == WIRE_BYTES(4))
        return insert_action_set(s, kind.bytes, profile, out, action_set);
    uint32_t id = (uint32_t)kind.value;
    bool is_group = kind.key == WIRE_VARINT(3), found;
    if (is_group && !profile->has_selector)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the action profile has no selector, so no groups");
    if (p4rt_selector_use_of(s, profile)->action_sets)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with action sets");
    if (is_group) {
        const struct ss_member_ref *refs;
        uint32_t count, max_size;
        found = ss_group_find(p4rt_profile_object(s, profile), id, &refs, &count, &max_size) == SS_OK;
    } else {
        found = ss_member_find(p4rt_profile_object(s, profile), id, &(struct ss_action_value){ 0 }) == SS_OK;
    }
    if (!found)
        return p4rt_reject(s, P4RT_NOT_FOUND, "%s %u does not exist", is_group ? "group" : "member", id);
    *out = (struct ss_action_value){ .kind = is_group ? SS_GROUP : SS_MEMBER, .id = id };
    return P4RT_OK;
}
