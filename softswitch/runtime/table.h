/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The control plane's view of a program's objects: tables, action profiles, counters, meters, registers, value sets.
 *
 * Keys, masks and action parameters cross this interface as the fields' bytes one after the other, each field
 * big-endian in ceil(bits / 8) bytes with unused high bits zero. Callers hold the switch's lock (engine.h), which the
 * data thread releases between batches; every call leaves the object whole, whatever it returns.
 */
#ifndef SOFTSWITCH_TABLE_H
#define SOFTSWITCH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct ss_state;

enum ss_status { SS_OK = 0, SS_EXISTS, SS_NOT_FOUND, SS_FULL, SS_INVALID, SS_IN_USE, SS_CONST, SS_NO_MEMORY };
enum ss_match_kind { SS_EXACT, SS_LPM, SS_TERNARY, SS_RANGE, SS_OPTIONAL };

struct ss_field_info { const char *name; enum ss_match_kind kind; uint32_t bits, bytes, offset; };
struct ss_action_info { const char *name; uint32_t id /* BMv2 JSON id */, parameter_count, parameter_bytes;
                        const uint32_t *parameter_bits; };

enum ss_action_kind { SS_DIRECT, SS_MEMBER, SS_GROUP };

struct ss_action_value {
    enum ss_action_kind kind;
    uint32_t action;               /* index into ss_objects.actions (SS_DIRECT) */
    const uint8_t *parameters;     /* its bytes (SS_DIRECT) */
    uint32_t id;                   /* member or group id (SS_MEMBER, SS_GROUP) */
};

struct ss_entry {
    const uint8_t *value;          /* key bytes; for a range: low */
    const uint8_t *mask;           /* ternary and optional: mask; LPM: prefix as a mask; range: high; exact: ignored */
    int32_t priority;              /* P4Runtime's: the larger wins; 0 for tables without ternary, range or optional */
    struct ss_action_value action;
    bool is_const;
    uint64_t controller_metadata;  /* opaque: kept and handed back (the P4Runtime server's own record of the entry) */
    uint64_t idle_timeout_ns;      /* 0: none */
    uint64_t last_hit_ns;          /* kept for entries with an idle timeout */
    uint64_t packets, bytes;       /* direct counter, if the table has one */
    uint32_t slot;                 /* out: steady while the entry lives; its index in the table's direct meter */
};

struct ss_table;
struct ss_table_info {
    const char *name;
    uint32_t field_count; const struct ss_field_info *fields;
    uint32_t key_bytes, size;
    bool has_priority, is_const, has_direct_counter, supports_timeout;
    int32_t profile;               /* index of its action profile, -1 if none */
    int32_t direct_meter;          /* index of its direct meter, -1 if none */
    uint32_t action_count; const uint32_t *actions; /* indices into ss_objects.actions */
};

const struct ss_table_info *ss_table_info(const struct ss_table *);
enum ss_status ss_table_insert(struct ss_table *, const struct ss_entry *, uint64_t *handle);
/* The same key (value, mask, priority) names the entry for modify, remove and find. */
enum ss_status ss_table_modify(struct ss_table *, const struct ss_entry *);
enum ss_status ss_table_remove(struct ss_table *, const struct ss_entry *key);
enum ss_status ss_table_find(struct ss_table *, const struct ss_entry *key, struct ss_entry *out);
enum ss_status ss_table_set_default(struct ss_table *, const struct ss_action_value *); /* NULL: back to the program's own */
enum ss_status ss_table_get_default(struct ss_table *, struct ss_entry *out, bool *is_programs_own);
uint32_t ss_table_count(const struct ss_table *);
/* Iterate: start with *cursor = 0; false at the end. A cursor survives inserts and removals (entries present
 * throughout are seen exactly once). `out` points into the table: valid until the lock is released. */
bool ss_table_next(struct ss_table *, uint64_t *cursor, struct ss_entry *out);
/* Do now what lookups need after changes, instead of leaving it to the next packet. */
void ss_table_settle(struct ss_table *);
/* key NULL: the default entry's counter. */
enum ss_status ss_table_set_direct_counter(struct ss_table *, const struct ss_entry *key, uint64_t packets, uint64_t bytes);

/* Action profiles. Members and groups live in one profile; a selector profile has hash inputs. */
struct ss_profile;
struct ss_member_ref { uint32_t member; int32_t weight; uint32_t watch_port; bool has_watch; };
struct ss_profile_info { const char *name; bool has_selector; uint32_t size, max_group_size;
                         uint32_t action_count; const uint32_t *actions; /* of all its tables */ };
const struct ss_profile_info *ss_profile_info(const struct ss_profile *);
enum ss_status ss_member_insert(struct ss_profile *, uint32_t id, const struct ss_action_value *);
enum ss_status ss_member_modify(struct ss_profile *, uint32_t id, const struct ss_action_value *);
enum ss_status ss_member_remove(struct ss_profile *, uint32_t id);          /* SS_IN_USE if referenced */
enum ss_status ss_member_find(struct ss_profile *, uint32_t id, struct ss_action_value *out);
enum ss_status ss_group_insert(struct ss_profile *, uint32_t id, uint32_t max_size, const struct ss_member_ref *, uint32_t count);
enum ss_status ss_group_modify(struct ss_profile *, uint32_t id, const struct ss_member_ref *, uint32_t count);
enum ss_status ss_group_remove(struct ss_profile *, uint32_t id);
enum ss_status ss_group_find(struct ss_profile *, uint32_t id, const struct ss_member_ref **, uint32_t *count, uint32_t *max_size);
bool ss_member_next(struct ss_profile *, uint64_t *cursor, uint32_t *id, struct ss_action_value *out);
bool ss_group_next(struct ss_profile *, uint64_t *cursor, uint32_t *id);
/* A group whose every live member is gone selects nothing: the table misses. Called by the engine when a port's
 * state changes: members watching a port that is down are left out, and come back with it. */
void ss_profiles_port_changed(struct ss_state *, uint32_t port, bool up);

/* Counters, meters, registers: plain arrays. */
struct ss_count { uint64_t packets, bytes; };
struct ss_counter { const char *name; uint32_t size; struct ss_count *cells; };
struct ss_meter_rates { uint64_t cir, cburst, pir, pburst; bool configured; };  /* per second; packets or bytes */
struct ss_meter_bucket;
struct ss_meter { const char *name; uint32_t size; bool in_bytes, is_direct; struct ss_meter_rates *rates;
                  struct ss_meter_bucket *buckets; };     /* rates are read here, and written by ss_meter_set */
/* rates NULL or not configured: every packet is green. SS_INVALID: no such cell, or pir below cir. */
enum ss_status ss_meter_set(struct ss_state *, uint32_t meter, uint32_t index, const struct ss_meter_rates *);
struct ss_register { const char *name; uint32_t size, bits, bytes; uint8_t *cells; /* native layout: use the calls */
                     bool live_depth; uint32_t class_bits; };
enum ss_status ss_register_read(struct ss_state *, uint32_t reg, uint32_t index, uint8_t *out /* big-endian */);
enum ss_status ss_register_write(struct ss_state *, uint32_t reg, uint32_t index, const uint8_t *value);
/* Declare a register live: of an index the lowest class_bits are the class and those above the port; reads by the
 * program give services->queue_depth(port, class), and its writes are ignored. */
enum ss_status ss_register_set_live_depth(struct ss_state *, uint32_t reg, uint32_t class_bits);

/* Parser value sets: members are keys and masks laid out as a table's; a packet matches if any member does. */
struct ss_value_set;
struct ss_value_set_info { const char *name; uint32_t field_count; const struct ss_field_info *fields;
                           uint32_t key_bytes, size; };
const struct ss_value_set_info *ss_value_set_info(const struct ss_value_set *);
/* Replace all members: `values` and `masks` hold count * key_bytes bytes each. */
enum ss_status ss_value_set_write(struct ss_value_set *, uint32_t count, const uint8_t *values, const uint8_t *masks);
bool ss_value_set_read(struct ss_value_set *, uint32_t index, const uint8_t **value, const uint8_t **mask);
struct ss_digest_info { const char *name; uint32_t list, field_count; const uint32_t *field_bits; uint32_t bytes; };

struct ss_objects {
    uint32_t table_count;    struct ss_table **tables;
    uint32_t profile_count;  struct ss_profile **profiles;
    uint32_t action_count;   const struct ss_action_info *actions;
    uint32_t counter_count;  struct ss_counter *counters;
    uint32_t meter_count;    struct ss_meter *meters;
    uint32_t register_count; struct ss_register *registers;
    uint32_t digest_count;   const struct ss_digest_info *digests;
    uint32_t value_set_count; struct ss_value_set **value_sets;
};

#endif
