/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * P4Runtime's Write and Read on a program's objects, from wire bytes to wire bytes.
 *
 * Python binds a P4Info to the program's objects once (the schema below: identifiers, widths, places) and then hands
 * whole requests over as bytes. What is rare and belongs to the engine or to Python (packet replication, digests) is
 * handed back as a `p4rt_item`, in its place among the updates.
 *
 * One thread at a time uses a session (the endpoint's lock); the switch's lock is taken here, for at most
 * P4RT_SLICE updates or entries, so that traffic flows during large requests.
 */
#ifndef SOFTSWITCH_P4RUNTIME_H
#define SOFTSWITCH_P4RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define P4RT_SLICE 64

enum p4rt_code { /* google.rpc.Code */
    P4RT_OK = 0, P4RT_INVALID_ARGUMENT = 3, P4RT_NOT_FOUND = 5, P4RT_ALREADY_EXISTS = 6, P4RT_PERMISSION_DENIED = 7,
    P4RT_RESOURCE_EXHAUSTED = 8, P4RT_FAILED_PRECONDITION = 9, P4RT_ABORTED = 10, P4RT_OUT_OF_RANGE = 11,
    P4RT_UNIMPLEMENTED = 12, P4RT_INTERNAL = 13,
};

/* The schema. Identifiers are P4Info's; `index` is the position in ss_objects; lists are sorted by identifier, but
 * for fields and parameters, which keep P4Info's order. `offset` and `bytes` place a value in key or parameter bytes;
 * `bits` is P4Info's width. */
struct p4rt_field { uint32_t id, kind /* enum ss_match_kind */, bits, bytes, offset; };
struct p4rt_parameter { uint32_t id, bits, bytes, offset; };
struct p4rt_action { uint32_t id, parameter_count, parameter_bytes; const struct p4rt_parameter *parameters; };
struct p4rt_action_ref { uint32_t action /* position in p4rt_schema.actions */, index, scope /* ActionRef.Scope */; };
struct p4rt_table {
    uint32_t id, index, key_bytes;
    uint32_t field_count; const struct p4rt_field *fields;
    uint32_t action_count; const struct p4rt_action_ref *actions;
    int32_t profile;               /* position in p4rt_schema.profiles, -1: none */
    int32_t direct_meter;          /* index in ss_objects.meters, -1: none */
    uint32_t meter_type;           /* MeterSpec.Type of the direct meter */
    bool needs_priority, is_const, const_default, has_counter, supports_timeout;
};
struct p4rt_profile {
    uint32_t id, index;
    uint32_t action_count; const struct p4rt_action_ref *actions;
    uint32_t max_group_size, max_member_weight;
    bool has_selector, sum_of_members, weights_disallowed;
};
struct p4rt_array { uint32_t id, index, size, type /* MeterSpec.Type */; };
struct p4rt_register { uint32_t id, index, size, bits, tag /* P4Data's field number */; bool is_signed; };
struct p4rt_value_set { uint32_t id, index, size, key_bytes, field_count; const struct p4rt_field *fields; };
struct p4rt_schema {
    uint32_t table_count; const struct p4rt_table *tables;
    uint32_t action_count; const struct p4rt_action *actions;
    uint32_t profile_count; const struct p4rt_profile *profiles;
    uint32_t counter_count; const struct p4rt_array *counters;
    uint32_t meter_count; const struct p4rt_array *meters;
    uint32_t register_count; const struct p4rt_register *registers;
    uint32_t value_set_count; const struct p4rt_value_set *value_sets;
    uint32_t object_action_count; const int32_t *action_of; /* ss_objects.actions index -> position in actions, -1 */
};

struct ss_switch;
struct p4rt_session;

/* A session lives as long as its schema and the switch's program; NULL: no memory. `ports` is the switch whose ports
 * members may watch: the same, but for a switch that only stands in until a saved pipeline is committed. */
struct p4rt_session *p4rt_open(struct ss_switch *, struct ss_switch *ports, const struct p4rt_schema *);
void p4rt_close(struct p4rt_session *);

/* What a WriteRequest says of itself, read before its updates are touched; false: malformed. */
struct p4rt_head {
    uint64_t device_id, role_id, election_high, election_low;
    bool has_election;
    int32_t atomicity;
    uint32_t update_count;
    const uint8_t *role; size_t role_length;
};
bool p4rt_write_head(const uint8_t *request, size_t length, struct p4rt_head *);
/* The device_id of any other request (field 1); false: malformed. */
bool p4rt_read_device(const uint8_t *request, size_t length, uint64_t *device_id);

struct p4rt_error { uint32_t index; int32_t code; char message[160]; };
/* An update or entity that is not ours; `data` is the Entity, `type` the Update.Type (0 in a read). */
struct p4rt_item { uint32_t index; int32_t type; uint32_t entity /* field number */; const uint8_t *data; size_t length; };

/* A batch of updates. step: 1 with an item that the caller applies (and fails with p4rt_write_fail), 0 at the end.
 * finish settles atomicity: with rollback or dataplane atomicity and any failure everything applied here is undone;
 * it returns true then, and the caller undoes its items. The request must outlive the batch. */
struct p4rt_batch;
struct p4rt_batch *p4rt_write_begin(struct p4rt_session *, const uint8_t *request, size_t length);
int p4rt_write_step(struct p4rt_batch *, struct p4rt_item *);
void p4rt_write_fail(struct p4rt_batch *, uint32_t index, int32_t code, const char *message);
bool p4rt_write_finish(struct p4rt_batch *);
const struct p4rt_error *p4rt_write_errors(const struct p4rt_batch *, uint32_t *count);
void p4rt_write_free(struct p4rt_batch *);

/* A read. step: 1 with a whole ReadResponse (valid until the next step), 2 with an item, 0 at the end. */
struct p4rt_query;
struct p4rt_query *p4rt_read_begin(struct p4rt_session *, const uint8_t *request, size_t length);
int p4rt_read_step(struct p4rt_query *, struct p4rt_item *);
void p4rt_read_fail(struct p4rt_query *, uint32_t index, int32_t code, const char *message);
const struct p4rt_error *p4rt_read_errors(const struct p4rt_query *, uint32_t *count, uint32_t *entities);
void p4rt_read_free(struct p4rt_query *);

/* Put everything that one session's objects hold (entries, defaults, members, groups, value sets, meters, counts,
 * registers) into another's, in place of what is there. Not all of it fits: a code, with the reason in `message`. */
int p4rt_copy(struct p4rt_session *from, struct p4rt_session *to, char *message, uint32_t message_bytes);

/* How many entries have an idle timeout: without any there is nothing to look for. */
uint32_t p4rt_idle_count(const struct p4rt_session *);
/* Entries past their idle timeout, as the table_entry fields of an IdleTimeoutNotification; their timers start anew.
 * Returns the bytes written so far for this scan (0: none); valid until the next call. */
size_t p4rt_idle_entries(struct p4rt_session *, const uint8_t **bytes);

#endif
