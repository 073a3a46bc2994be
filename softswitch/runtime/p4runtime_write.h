/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the files that serve P4Runtime's Write share: each kind of entity has one.
 */
#ifndef SOFTSWITCH_P4RUNTIME_WRITE_H
#define SOFTSWITCH_P4RUNTIME_WRITE_H

#include "p4runtime_session.h"

/* The inverse of an update, written between open and close: `type` and where its entity begins. */
size_t p4rt_undo_open(struct p4rt_session *, int type);
void p4rt_undo_close(struct p4rt_session *, size_t entity);
/* The last `count` inverses belong to an update that did not happen. */
void p4rt_undo_drop(struct p4rt_session *, uint32_t count);
/* The inverse of an INSERT: a DELETE needs the key only and ignores the rest. */
void p4rt_undo_insert(struct p4rt_session *, struct wire_span entity);
bool p4rt_undo_ready(struct p4rt_session *);

/* An Action message, its parameters into session->parameters. */
int p4rt_decode_action(struct p4rt_session *, struct wire_span, const struct p4rt_action_ref *, uint32_t count, bool as_default,
                       struct ss_action_value *out);
/* A TableAction message; a one-shot's action set is installed, and written down in canonical form. */
int p4rt_decode_table_action(struct p4rt_session *, const struct p4rt_table *, struct wire_span, struct ss_action_value *out,
                             struct wire_writer *action_set);
void p4rt_remove_action_set(struct p4rt_session *, const struct p4rt_profile *, uint32_t group);

struct ss_profile *p4rt_profile_object(struct p4rt_session *, const struct p4rt_profile *);
struct p4rt_selector_use *p4rt_selector_use_of(struct p4rt_session *, const struct p4rt_profile *);
/* A port watched for liveness, from either form of watch_kind. */
int p4rt_decode_watch(struct p4rt_session *, const struct wire_field *, struct ss_member_ref *);
int p4rt_check_weight(struct p4rt_session *, const struct p4rt_profile *, int32_t *weight);
int p4rt_check_group_size(struct p4rt_session *, const struct p4rt_profile *, const struct ss_member_ref *, uint32_t count,
                          uint32_t max_size, int code);

int p4rt_decode_counter_data(struct p4rt_session *, struct wire_span, uint64_t *packets, uint64_t *bytes);
int p4rt_decode_meter_config(struct p4rt_session *, bool present, struct wire_span, uint32_t type, struct ss_meter_rates *);
/* The direct meter of an entry, if its table has one. */
void p4rt_set_meter(struct p4rt_session *, const struct p4rt_table *, uint32_t slot, const struct ss_meter_rates *);

/* One update of an entity of each kind: `message` is its content, `entity` all of it. */
int p4rt_write_table_entry(struct p4rt_session *, int type, struct wire_span message, struct wire_span entity);
int p4rt_write_direct(struct p4rt_session *, int type, struct wire_span message, bool is_meter);
int p4rt_write_counter(struct p4rt_session *, int type, struct wire_span message);
int p4rt_write_meter(struct p4rt_session *, int type, struct wire_span message);
int p4rt_write_register(struct p4rt_session *, int type, struct wire_span message);
int p4rt_write_value_set(struct p4rt_session *, int type, struct wire_span message);
int p4rt_write_member(struct p4rt_session *, int type, struct wire_span message, struct wire_span entity);
int p4rt_write_group(struct p4rt_session *, int type, struct wire_span message, struct wire_span entity);

#endif
