/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What P4Runtime's Write and Read share: the session, and the decoding and encoding of keys, actions and entries.
 */
#ifndef SOFTSWITCH_P4RUNTIME_SESSION_H
#define SOFTSWITCH_P4RUNTIME_SESSION_H

#include "engine.h"
#include "p4runtime.h"
#include "wire.h"

enum p4rt_entity { /* field numbers of p4.v1.Entity */
    P4RT_EXTERN = 1, P4RT_TABLE = 2, P4RT_MEMBER = 3, P4RT_GROUP = 4, P4RT_METER = 5, P4RT_DIRECT_METER = 6,
    P4RT_COUNTER = 7, P4RT_DIRECT_COUNTER = 8, P4RT_REPLICATION = 9, P4RT_VALUE_SET = 10, P4RT_REGISTER = 11,
    P4RT_DIGEST = 12,
};
enum p4rt_update { P4RT_INSERT = 1, P4RT_MODIFY = 2, P4RT_DELETE = 3 };
enum p4rt_part { P4RT_WITH_COUNTER = 1, P4RT_WITH_METER = 2, P4RT_WITH_ELAPSED = 4 };

/* What P4Runtime remembers of an entry beyond its key and action; ss_entry.controller_metadata holds its place. */
struct p4rt_extra {
    uint64_t controller_metadata;
    uint8_t *metadata; uint32_t metadata_length;
    uint8_t *action_set; uint32_t action_set_length;   /* a one-shot's ActionProfileActionSet, canonical */
    uint64_t notified_ns;                              /* last idle notification */
    uint32_t next_free;
    bool used;
};

struct p4rt_selector_use { uint32_t action_sets, next_member, next_group; };

/* Inverses of the updates applied so far, each an Update's content, newest last. */
struct p4rt_undo { struct wire_writer bytes; size_t *starts; uint32_t count, capacity; bool failed; };

struct p4rt_session {
    struct ss_switch *sw, *ports;
    struct ss_state *state;
    const struct ss_objects *objects;
    const struct p4rt_schema *schema;
    struct p4rt_extra *extras; uint32_t extra_count, extra_free;   /* extras[0] stands for "nothing" */
    uint32_t *default_extras;                                      /* by position of the table */
    struct p4rt_selector_use *selectors;                           /* by position of the profile */
    uint8_t *value, *mask, *seen, *parameters, *cell;              /* room for the largest of each */
    uint64_t now_ns;
    uint32_t idle_entries;                                         /* entries with a timeout */
    struct p4rt_undo *undo;                                        /* NULL: not recorded */
    struct wire_writer idle;
    char message[160];                                             /* of the last rejection */
};

/* A TableEntry message, its scalars read and its parts found. */
struct p4rt_entry_message {
    const struct p4rt_table *table;                                /* NULL: table_id is 0 */
    struct wire_span message, action, metadata, counter, meter;
    bool has_match, has_action, has_counter, has_meter, has_meter_counters, has_elapsed, is_default, is_const;
    int32_t priority;
    uint64_t controller_metadata;
    int64_t idle_timeout_ns;
};

/* Each returns an enum p4rt_code; on a rejection session->message says why. */
__attribute__((format(printf, 3, 4)))
int p4rt_reject(struct p4rt_session *, int code, const char *format, ...);
int p4rt_status(struct p4rt_session *, enum ss_status, const char *what);
int p4rt_malformed(struct p4rt_session *, const char *what);
int p4rt_decode_value(struct p4rt_session *, struct wire_span, uint32_t bits, uint32_t bytes, uint8_t *out, const char *what,
                      uint32_t id);
int p4rt_decode_entry(struct p4rt_session *, struct wire_span, struct p4rt_entry_message *);
/* The FieldMatch fields numbered `number` of a message, into session->value and session->mask. */
int p4rt_decode_match(struct p4rt_session *, struct wire_span message, uint32_t number, const struct p4rt_field *,
                      uint32_t count);
/* The key of an entry (match and priority) as an ss_entry on session->value and session->mask. */
int p4rt_decode_key(struct p4rt_session *, const struct p4rt_entry_message *, struct ss_entry *key);
/* An Index message: -1 when `present` is false. */
int p4rt_decode_index(struct p4rt_session *, bool present, struct wire_span, uint32_t size, int64_t *index);

const struct p4rt_table *p4rt_find_table(const struct p4rt_schema *, uint32_t id);
const struct p4rt_action *p4rt_find_action(const struct p4rt_schema *, uint32_t id);
const struct p4rt_profile *p4rt_find_profile(const struct p4rt_schema *, uint32_t id);
const struct p4rt_array *p4rt_find_counter(const struct p4rt_schema *, uint32_t id);
const struct p4rt_array *p4rt_find_meter(const struct p4rt_schema *, uint32_t id);
const struct p4rt_register *p4rt_find_register(const struct p4rt_schema *, uint32_t id);
const struct p4rt_value_set *p4rt_find_value_set(const struct p4rt_schema *, uint32_t id);

struct ss_table *p4rt_table_object(const struct p4rt_session *, const struct p4rt_table *);
struct p4rt_extra *p4rt_extra_of(struct p4rt_session *, uint64_t place);

void p4rt_encode_value(struct wire_writer *, uint32_t number, const uint8_t *data, uint32_t bytes);
void p4rt_encode_match(struct wire_writer *, uint32_t number, const struct p4rt_field *, uint32_t count,
                       const uint8_t *value, const uint8_t *mask);
void p4rt_encode_entry(struct p4rt_session *, struct wire_writer *, uint32_t number, const struct p4rt_table *,
                       const struct ss_entry *, uint32_t parts);
void p4rt_encode_default(struct p4rt_session *, struct wire_writer *, uint32_t number, const struct p4rt_table *,
                         uint32_t parts, bool own_action_too);
void p4rt_encode_counter_data(struct wire_writer *, uint32_t number, uint64_t packets, uint64_t bytes);
void p4rt_encode_meter_config(struct wire_writer *, uint32_t number, const struct ss_meter_rates *);
void p4rt_encode_index(struct wire_writer *, uint32_t number, uint32_t index);
void p4rt_encode_counter(struct p4rt_session *, struct wire_writer *, const struct p4rt_array *, uint32_t index);
void p4rt_encode_meter(struct p4rt_session *, struct wire_writer *, const struct p4rt_array *, uint32_t index);
void p4rt_encode_register(struct p4rt_session *, struct wire_writer *, const struct p4rt_register *, uint32_t index);
void p4rt_encode_value_set(struct p4rt_session *, struct wire_writer *, const struct p4rt_value_set *);
void p4rt_encode_member(struct p4rt_session *, struct wire_writer *, const struct p4rt_profile *, uint32_t id,
                        const struct ss_action_value *);
void p4rt_encode_group(struct p4rt_session *, struct wire_writer *, const struct p4rt_profile *, uint32_t id);

/* The last entity field of an Entity message, 0 if there is none; *malformed is set when it cannot be read. */
uint32_t p4rt_entity_kind(struct wire_span entity, struct wire_span *content, bool *malformed);

/* One update of an entity of ours, under the switch's lock. */
int p4rt_apply(struct p4rt_session *, int type, uint32_t kind, struct wire_span content, struct wire_span entity);

struct p4rt_errors { struct p4rt_error *list; uint32_t count, capacity; };
void p4rt_errors_add(struct p4rt_errors *, uint32_t index, int32_t code, const char *message);

#endif
