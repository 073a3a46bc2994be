/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * How tables and action profiles stand in memory, shared by table.c and the programs that the compiler writes.
 *
 * A key is packed into 64-bit words (the compiler chooses the place of each field), and lookups compare words. An
 * entry is a row number; what a hit needs (action, counter, native action data) stands in one row, everything else
 * in arrays beside it. */
#ifndef SOFTSWITCH_TABLE_IMPL_H
#define SOFTSWITCH_TABLE_IMPL_H

#include "bytes.h"
#include "program.h"
#include "table.h"

#define SS_NO_ROW UINT32_MAX
#define SS_NO_ACTION INT32_MAX       /* bit 31 of what an application returns tells a hit */
#define SS_ROW_HEADER 32           /* action data starts here, 16-byte aligned */
/* Bytes from a row to the next, with so many of action data: none lies across two cache lines that fits one. */
#define SS_ROW_STRIDE(data_bytes) ((data_bytes) == 0 ? SS_ROW_HEADER : (SS_ROW_HEADER + (data_bytes) + 63) / 64 * 64)
#define SS_MAX_WORDS 64            /* of a packed key */
#define SS_VALUE_SET_SIZE 1024     /* members of a value set: BMv2 JSON names no size */
#define SS_FEW_RULES 64            /* up to here rules are matched by bit vectors */
#define SS_CHUNKS_AT_ONCE 4
#define SS_FEW_LENGTHS 3           /* up to here prefix lengths are tried one by one */

/* ---- what the compiler writes down ---- */

enum ss_method { SS_METHOD_NONE, SS_METHOD_INDEX, SS_METHOD_HASH, SS_METHOD_PREFIX, SS_METHOD_RULES };

struct ss_slot { uint16_t word, shift; };                     /* a field's place: it spans words when over 64 bits */
/* At most 8 bits of a rules key, alone in their byte of it: shift is a multiple of 8. */
struct ss_chunk { uint16_t word; uint8_t shift, bits; uint8_t range; };
struct ss_const_entry { const uint8_t *value, *mask; int32_t priority; uint32_t action; const uint8_t *parameters; };
struct ss_native_action { uint32_t bytes; const uint16_t *offsets; };    /* where parameters stand in action data */

struct ss_table_layout {
    struct ss_table_info info;
    enum ss_method method;
    uint32_t words;
    const struct ss_slot *slots;            /* one for each field */
    const uint64_t *static_mask;            /* the program's own mask of the key; NULL: none */
    uint32_t index_bits;                    /* SS_METHOD_INDEX: bits of the key */
    uint32_t prefix_field;                  /* SS_METHOD_PREFIX: the field with the prefix */
    uint32_t chunk_count;                   /* SS_METHOD_RULES and _PREFIX: the key in chunks, but for long ranges: */
    const struct ss_chunk *chunks;
    uint32_t range_count;                   /* fields of more than 8 bits matched by range */
    const uint16_t *ranges;                 /* their numbers */
    uint32_t data_bytes;                    /* of the largest action data */
    uint32_t default_action;                /* the program's own; SS_NO_ACTION: none */
    const uint8_t *default_parameters;
    bool default_is_const, default_action_is_const;
    uint32_t entry_count;
    const struct ss_const_entry *entries;
};

struct ss_profile_layout { struct ss_profile_info info; uint32_t data_bytes; };

/* ---- rows ---- */

struct ss_row {
    uint32_t action;               /* index into ss_objects.actions; SS_NO_ACTION in a default row: do nothing */
    uint8_t kind;                  /* enum ss_action_kind; a member or group stands in `reference` */
    uint8_t flags;
    uint16_t prefix;
    uint32_t reference;            /* slot of the member or group in the profile */
    int32_t priority;              /* of a prefix: its length */
    struct ss_count count;
    uint8_t data[];
};
_Static_assert(sizeof(struct ss_row) == SS_ROW_HEADER, "action data is 16-byte aligned");

enum { SS_ROW_USED = 1, SS_ROW_CONST = 2 };

/* Open addressing with linear probing; deletion shifts back, so no tombstones. The high half of a hash is the tag,
 * and a row's home is tag & mask. */
struct ss_hash_slot { uint32_t tag, row; };
struct ss_hash { struct ss_hash_slot *slots; uint32_t mask, used; };
extern struct ss_hash_slot ss_hash_nothing[1];

struct ss_record {                 /* what only the control plane needs of a row */
    uint64_t controller_metadata, idle_timeout_ns, sequence;
    uint32_t next;                 /* free rows, or the next row of a tuple's bucket */
    uint32_t tuple;                /* SS_METHOD_RULES: its tuple's number, SS_NO_ROW in a block */
};

/* Prefixes, all in one hash whose seed is the length; the lengths in use, the longest first. Where lengths are many, a
 * guide tells for the first bits of a key which longer lengths there are, so that a lookup tries no others. */
struct ss_prefix_length { uint32_t length, rows; };
struct ss_guide_count { uint32_t length, rows; };
struct ss_guide { uint64_t top, lengths[2]; uint32_t count_count, count_capacity; struct ss_guide_count *counts; };
struct ss_prefixes {
    struct ss_hash hash;
    uint32_t length_count;
    struct ss_prefix_length *lengths;
    uint64_t *masks;               /* the key's mask for each length */
    uint32_t guide_bits;           /* 0: no guides */
    struct ss_hash guide_tops;
    struct ss_guide *guides;
    uint32_t guide_count, guide_capacity, free_guide;
};

/* Up to 64 rules: a bit for each, in order of priority, and per chunk of the key the rules that accept each value. */
struct ss_vector_chunk { uint32_t at /* byte of the key */, share /* of pairs that accept, in 1/2^16 */;
                         const uint64_t *accepts; };
struct ss_vector_range { uint16_t word; uint8_t shift; uint32_t steps; uint64_t mask; const uint64_t *bounds, *accepts; };
/* A range field of 9 to 16 bits by its upper byte: where its vectors begin << 8 | the part of the lower byte that counts,
 * which is nothing where all lower bytes are alike. */
struct ss_vector_pages { uint32_t first[256]; uint64_t *accepts; };
struct ss_vectors {
    uint64_t all;
    uint32_t chunk_count /* a multiple of SS_CHUNKS_AT_ONCE: the last one may stand there again */, range_count;
    bool verify;                   /* ranges too wide for a word: check the candidates one by one */
    bool stale;                    /* the rows have changed since it was built */
    uint32_t count, rows[SS_FEW_RULES];  /* the best first */
    struct ss_vector_chunk *chunks;
    struct ss_vector_range *ranges;
    struct ss_vector_pages *pages; /* one for each range field, in a table's only block */
    uint64_t *storage;             /* 256 vectors for each chunk, then bounds and vectors of ranges */
};

/* Rules are in blocks of bit vectors, all of a block before all of the next. Masks that many of them have move into
 * tuples (tuple space search): rules whose masks contain a tuple's mask share its hash; tuples stand in order of their
 * highest priority, so that a search ends at the first that cannot beat what is found. */
struct ss_tuple { struct ss_hash hash; uint64_t *mask; int32_t highest; uint32_t rows, number, bits /* of the mask */; };
struct ss_tuples { struct ss_tuple **order, **by_number; uint32_t count, capacity; };
struct ss_blocks { struct ss_vectors **order; uint32_t count, capacity, regroup_at; };

struct ss_table {
    const struct ss_table_layout *layout;
    struct ss_state *state;
    struct ss_profile *profile;
    const struct ss_action_info *actions;            /* ss_objects.actions */
    const struct ss_native_action *natives;
    uint8_t *rows;
    uint32_t stride, capacity, count, high_water, free_row;
    uint64_t *keys, *masks, *highs;                  /* packed, `words` a row; masks and highs for rules only */
    uint64_t *last_hit;                              /* tables with timeouts */
    struct ss_record *records;
    uint8_t *blobs;                                  /* value, mask and parameters as the control plane gave them */
    uint32_t blob_stride, mask_offset, parameter_offset;
    struct ss_row *default_row;
    uint8_t *default_parameters;
    bool default_is_own;
    uint64_t sequence;

    uint32_t *index;                                 /* SS_METHOD_INDEX: row + 1, 0 none */
    struct ss_hash hash;                             /* SS_METHOD_HASH; for rules: whole entries, by identity */
    struct ss_prefixes prefixes;
    bool by_vectors;                                 /* SS_METHOD_PREFIX: all rows are in one block */
    const struct ss_vectors *only;                   /* the block that all rows are in, built; NULL: search */
    struct ss_blocks blocks;
    struct ss_tuples tuples;
};

/* ---- action profiles ---- */

struct ss_id_map { struct ss_hash hash; };
struct ss_member { uint32_t id, references; bool used; };
struct ss_group {
    uint32_t id, references, count, max_size, live_count, live_capacity, ref_capacity;
    bool used;
    uint32_t *live;                                  /* member slots, a copy for each unit of weight */
    struct ss_member_ref *refs;
    uint32_t *ref_slots;
};
struct ss_profile {
    const struct ss_profile_layout *layout;
    struct ss_state *state;
    const struct ss_engine_services *services;
    const struct ss_action_info *actions;
    const struct ss_native_action *natives;
    uint8_t *rows;                                   /* members' rows, laid out as a table's */
    uint32_t stride;
    struct ss_member *members;
    uint8_t *blobs;
    uint32_t blob_stride, member_capacity, member_count, member_high_water;
    struct ss_group *groups;
    uint32_t group_capacity, group_count, group_high_water;
    struct ss_hash member_ids, group_ids;
    uint64_t next_turn;                              /* round robin selection */
};

/* ---- value sets ---- */

struct ss_value_set_layout { struct ss_value_set_info info; uint32_t words; const struct ss_slot *slots;
                             const uint64_t *static_mask; };
struct ss_value_set {
    const struct ss_value_set_layout *layout;
    uint32_t count;
    uint64_t *values, *masks;                        /* packed, `words` a member */
    uint8_t *blobs;                                  /* as given: values, then masks */
};

/* ---- control functions beside table.h ---- */

/* Every program's state begins with this. */
struct ss_state_head { const struct ss_objects *objects; const struct ss_engine_services *services; };

static inline const struct ss_objects *ss_objects_of(const struct ss_state *state)
{
    return ((const struct ss_state_head *)state)->objects;
}

static inline const struct ss_engine_services *ss_services_of(const struct ss_state *state)
{
    return ((const struct ss_state_head *)state)->services;
}

/* Pack bytes of one field into words that are zero there. */
void ss_pack_field(uint64_t *words, const uint8_t *bytes, const struct ss_field_info *field, struct ss_slot slot);

enum ss_status ss_table_open(struct ss_table *, const struct ss_table_layout *, struct ss_state *, struct ss_profile *,
                             const struct ss_action_info *, const struct ss_native_action *);
void ss_table_close(struct ss_table *);
enum ss_status ss_profile_open(struct ss_profile *, const struct ss_profile_layout *, struct ss_state *,
                               const struct ss_engine_services *, const struct ss_action_info *,
                               const struct ss_native_action *, uint32_t parameter_bytes);
void ss_profile_close(struct ss_profile *);
/* Fill a row from an action value; SS_NOT_FOUND for a member or group that does not exist. */
enum ss_status ss_profile_reference(struct ss_profile *, struct ss_row *, const struct ss_action_value *);
void ss_profile_release(struct ss_profile *, const struct ss_row *);
void ss_profile_describe(const struct ss_profile *, const struct ss_row *, struct ss_action_value *);
void ss_encode_action(const struct ss_native_action *, const struct ss_action_info *, uint8_t *data, const uint8_t *bytes);
void ss_meter_forget(struct ss_state *, uint32_t meter, uint32_t index);
uint32_t ss_meter_run(struct ss_state *, struct ss_meter *, uint32_t index, uint32_t bytes);
void ss_value_set_close(struct ss_value_set *);

void ss_prefixes_changed(struct ss_table *);
void ss_rules_insert(struct ss_table *, uint32_t row);
void ss_rules_remove(struct ss_table *, uint32_t row);
void ss_rules_close(struct ss_table *);

void ss_vectors_gather(const struct ss_table *, struct ss_vectors *);   /* take all of the table's rows */
void ss_vectors_build(const struct ss_table *, struct ss_vectors *);    /* after its rows have changed */
void ss_vectors_page(const struct ss_table *, struct ss_vectors *);     /* then, of a table's only block */
void ss_vectors_free(const struct ss_table *, struct ss_vectors *);

void ss_hash_add(struct ss_hash *, uint32_t tag, uint32_t row);
void ss_hash_delete(struct ss_hash *, uint32_t tag, uint32_t row);
void ss_hash_replace(struct ss_hash *, uint32_t tag, uint32_t row, uint32_t by);
void ss_hash_clear(struct ss_hash *);

void *ss_grow(void *array, size_t count, size_t size);   /* realloc that ends the process when memory is out */
void *ss_zeroed(size_t count, size_t size);

/* ---- lookups, inlined into programs: `words` is a constant there ---- */

#define SS_INLINE inline __attribute__((always_inline))

static SS_INLINE uint64_t ss_mix(uint64_t a, uint64_t b)
{
    ss_u128 product = (ss_u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static SS_INLINE uint32_t ss_tag(const uint64_t *key, uint32_t words, uint64_t seed)
{
    uint64_t hash = seed ^ 0x9e3779b97f4a7c15u;
    for (uint32_t w = 0; w < words; w++)
        hash = ss_mix(key[w] ^ hash, 0xd6e8feb86659fd93u);
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

static SS_INLINE bool ss_same(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    uint64_t difference = 0;
    for (uint32_t w = 0; w < words; w++)
        difference |= a[w] ^ b[w];
    return difference == 0;
}

static SS_INLINE struct ss_row *ss_row_at(const struct ss_table *table, uint32_t row)
{
    return (struct ss_row *)(table->rows + (size_t)row * table->stride);
}

static SS_INLINE uint32_t ss_find_index(const struct ss_table *table, const uint64_t *key)
{
    return table->index[key[0]] - 1;
}

static SS_INLINE uint32_t ss_find_hash(const struct ss_table *table, const uint64_t *key, uint32_t words)
{
    uint32_t tag = ss_tag(key, words, 0);
    for (uint32_t i = tag & table->hash.mask;; i = (i + 1) & table->hash.mask) {
        struct ss_hash_slot slot = table->hash.slots[i];
        if (slot.row == SS_NO_ROW)
            return SS_NO_ROW;
        if (slot.tag == tag && ss_same(table->keys + (size_t)slot.row * words, key, words))
            return slot.row;
    }
}

/* Mask a key for a prefix length, and ask for the place of it in memory. */
static SS_INLINE uint32_t ss_length_tag(const struct ss_table *table, const uint64_t *key, uint32_t words,
                                        uint32_t length, uint64_t *masked)
{
    const struct ss_prefixes *prefixes = &table->prefixes;
    const uint64_t *mask = prefixes->masks + (size_t)length * words;
    for (uint32_t w = 0; w < words; w++)
        masked[w] = key[w] & mask[w];
    uint32_t tag = ss_tag(masked, words, length + 1);
    __builtin_prefetch(&prefixes->hash.slots[tag & prefixes->hash.mask]);
    return tag;
}

static SS_INLINE uint32_t ss_try_length(const struct ss_table *table, const uint64_t *masked, uint32_t words,
                                        uint32_t length, uint32_t tag)
{
    const struct ss_prefixes *prefixes = &table->prefixes;
    for (uint32_t i = tag & prefixes->hash.mask;; i = (i + 1) & prefixes->hash.mask) {
        struct ss_hash_slot slot = prefixes->hash.slots[i];
        if (slot.row == SS_NO_ROW)
            return SS_NO_ROW;
        if (slot.tag == tag && ss_same(table->keys + (size_t)slot.row * words, masked, words)
            && ss_row_at(table, slot.row)->prefix == length)
            return slot.row;
    }
}

/* The first guide_bits bits of a key's prefix field, which has at most 64 bits or just 128. */
static SS_INLINE uint64_t ss_guide_top(const struct ss_table *table, const uint64_t *key, uint32_t words)
{
    const struct ss_table_layout *layout = table->layout;
    uint32_t bits = layout->info.fields[layout->prefix_field].bits;
    struct ss_slot slot = layout->slots[layout->prefix_field];
    if (words > 1 && bits > 64)
        return key[slot.word + 1] >> (64 - table->prefixes.guide_bits);
    return (key[slot.word] >> slot.shift & (~0ull >> (64 - bits))) >> (bits - table->prefixes.guide_bits);
}

static SS_INLINE const struct ss_guide *ss_find_guide(const struct ss_prefixes *prefixes, uint64_t top)
{
    uint32_t tag = ss_tag(&top, 1, 0);
    for (uint32_t i = tag & prefixes->guide_tops.mask;; i = (i + 1) & prefixes->guide_tops.mask) {
        struct ss_hash_slot slot = prefixes->guide_tops.slots[i];
        if (slot.row == SS_NO_ROW)
            return NULL;
        if (prefixes->guides[slot.row].top == top)
            return &prefixes->guides[slot.row];
    }
}

/* Does a rule's row accept the key: masked bits first, then long ranges. */
static SS_INLINE bool ss_rule_accepts(const struct ss_table *table, uint32_t row, const uint64_t *key, uint32_t words)
{
    const uint64_t *value = table->keys + (size_t)row * words, *mask = table->masks + (size_t)row * words;
    uint64_t difference = 0;
    for (uint32_t w = 0; w < words; w++)
        difference |= (key[w] ^ value[w]) & mask[w];
    if (difference)
        return false;
    const uint64_t *high = table->highs + (size_t)row * words;
    const struct ss_table_layout *layout = table->layout;
    for (uint32_t r = 0; r < layout->range_count; r++) {
        uint32_t field = layout->ranges[r];
        struct ss_slot slot = layout->slots[field];
        uint32_t bits = layout->info.fields[field].bits;
        if (bits <= 64) {
            uint64_t cut = ~0ull >> (64 - bits), v = key[slot.word] >> slot.shift & cut;
            if (v < (value[slot.word] >> slot.shift & cut) || v > (high[slot.word] >> slot.shift & cut))
                return false;
        } else {
            for (uint32_t w = slot.word + (bits + 63) / 64; w-- > slot.word;)
                if (key[w] != value[w]) {
                    if (key[w] < value[w])
                        return false;
                    break;
                }
            for (uint32_t w = slot.word + (bits + 63) / 64; w-- > slot.word;)
                if (key[w] != high[w]) {
                    if (key[w] > high[w])
                        return false;
                    break;
                }
        }
    }
    return true;
}

/* What a table's only block accepts by one chunk of the key, and by a range of 9 to 16 bits: programs, which know their
 * chunks, look at all of them without a loop. */
static SS_INLINE uint64_t ss_chunk_accepts(const struct ss_vectors *vectors, uint32_t chunk, uint64_t value)
{
    return vectors->storage[256 * chunk + (uint8_t)value];
}

static SS_INLINE uint64_t ss_page_accepts(const struct ss_vectors *vectors, uint32_t range, uint64_t value)
{
    const struct ss_vector_pages *pages = &vectors->pages[range];
    uint32_t first = pages->first[(uint8_t)(value >> 8)];
    return pages->accepts[(first >> 8) + (first & (uint8_t)value)];
}

static SS_INLINE uint32_t ss_find_vectors(struct ss_table *table, struct ss_vectors *vectors, const uint64_t *key,
                                          uint32_t words)
{
    if (__builtin_expect(vectors->stale, 0))
        ss_table_settle(table);
    const uint8_t *bytes = (const uint8_t *)key;
    const struct ss_vector_chunk *chunk = vectors->chunks, *end = chunk + vectors->chunk_count;
    uint64_t accepted = vectors->all;
    for (; chunk != end; chunk += SS_CHUNKS_AT_ONCE) {
        accepted &= chunk[0].accepts[bytes[chunk[0].at]] & chunk[1].accepts[bytes[chunk[1].at]]
                  & chunk[2].accepts[bytes[chunk[2].at]] & chunk[3].accepts[bytes[chunk[3].at]];
        if (!accepted)
            return SS_NO_ROW;
    }
    for (uint32_t r = 0; accepted && r < vectors->range_count; r++) {
        const struct ss_vector_range *range = &vectors->ranges[r];
        uint64_t value = key[range->word] >> range->shift & range->mask;
        uint32_t at = 0;                                 /* the last bound not above the value; bounds[0] is 0 */
        for (uint32_t step = range->steps; step; step >>= 1)
            at += range->bounds[at + step] <= value ? step : 0;
        accepted &= range->accepts[at];
    }
    while (accepted) {
        uint32_t row = vectors->rows[__builtin_ctzll(accepted)];
        if (!vectors->verify || ss_rule_accepts(table, row, key, words))
            return row;
        accepted &= accepted - 1;
    }
    return SS_NO_ROW;
}

static SS_INLINE bool ss_rule_beats(const struct ss_table *table, uint32_t row, uint32_t other)
{
    int32_t a = ss_row_at(table, row)->priority, b = ss_row_at(table, other)->priority;
    return a > b || (a == b && table->records[row].sequence < table->records[other].sequence);
}

/* The better of the best rule so far and those of one tuple's bucket. */
static SS_INLINE uint32_t ss_try_tuple(const struct ss_table *table, const struct ss_tuple *tuple, uint32_t tag,
                                       const uint64_t *key, uint32_t words, uint32_t best)
{
    for (uint32_t i = tag & tuple->hash.mask;; i = (i + 1) & tuple->hash.mask) {
        struct ss_hash_slot slot = tuple->hash.slots[i];
        if (slot.row == SS_NO_ROW)
            return best;
        if (slot.tag != tag)
            continue;
        for (uint32_t row = slot.row; row != SS_NO_ROW; row = table->records[row].next) {
            if (best != SS_NO_ROW && !ss_rule_beats(table, row, best))
                break;
            if (ss_rule_accepts(table, row, key, words)) {
                best = row;
                break;
            }
        }
    }
}

/* A few tuples at a time: their places in memory are asked for before the first is looked at. */
static SS_INLINE uint32_t ss_find_tuples(const struct ss_table *table, const uint64_t *key, uint32_t words)
{
    enum { AHEAD = 8 };
    uint32_t best = SS_NO_ROW, tags[AHEAD];
    for (uint32_t first = 0; first < table->tuples.count; first += AHEAD) {
        struct ss_tuple *const *tuples = table->tuples.order + first;
        uint32_t count = table->tuples.count - first < AHEAD ? table->tuples.count - first : AHEAD;
        if (best != SS_NO_ROW && tuples[0]->highest < ss_row_at(table, best)->priority)
            break;
        for (uint32_t t = 0; t < count; t++) {
            uint64_t masked[SS_MAX_WORDS];
            for (uint32_t w = 0; w < words; w++)
                masked[w] = key[w] & tuples[t]->mask[w];
            tags[t] = ss_tag(masked, words, 0);
            __builtin_prefetch(&tuples[t]->hash.slots[tags[t] & tuples[t]->hash.mask]);
        }
        for (uint32_t t = 0; t < count; t++)
            if (best == SS_NO_ROW || tuples[t]->highest >= ss_row_at(table, best)->priority)
                best = ss_try_tuple(table, tuples[t], tags[t], key, words, best);
    }
    return best;
}

static SS_INLINE uint32_t ss_find_lengths(const struct ss_table *table, const uint64_t *key, uint32_t words)
{
    const struct ss_prefixes *prefixes = &table->prefixes;
    uint64_t masked[SS_FEW_LENGTHS][SS_MAX_WORDS], guided[2] = {0, 0};
    uint32_t l = 0, lengths[SS_FEW_LENGTHS], tags[SS_FEW_LENGTHS];
    if (prefixes->length_count > SS_FEW_LENGTHS && prefixes->guide_bits) {
        const struct ss_guide *guide = ss_find_guide(prefixes, ss_guide_top(table, key, words));
        if (guide)
            memcpy(guided, guide->lengths, sizeof guided);
        while (l < prefixes->length_count && prefixes->lengths[l].length > prefixes->guide_bits)
            l++;
    }
    for (;;) {                     /* a few at a time: the next ones are on their way while one is tried */
        uint32_t count = 0;
        for (; count < SS_FEW_LENGTHS; count++) {
            uint32_t half = guided[1] != 0;
            if (guided[half]) {
                uint32_t bit = 63 - (uint32_t)__builtin_clzll(guided[half]);
                lengths[count] = 64 * half + bit + 1;
                guided[half] ^= 1ull << bit;
            } else if (l < prefixes->length_count) {
                lengths[count] = prefixes->lengths[l++].length;
            } else {
                break;
            }
            tags[count] = ss_length_tag(table, key, words, lengths[count], masked[count]);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = ss_try_length(table, masked[i], words, lengths[i], tags[i]);
            if (row != SS_NO_ROW)
                return row;
        }
        if (count < SS_FEW_LENGTHS)
            return SS_NO_ROW;
    }
}

static SS_INLINE uint32_t ss_find_prefix(struct ss_table *table, const uint64_t *key, uint32_t words)
{
    return table->by_vectors ? ss_find_vectors(table, table->blocks.order[0], key, words)
                             : ss_find_lengths(table, key, words);
}

static SS_INLINE uint32_t ss_find_rule(struct ss_table *table, const uint64_t *key, uint32_t words)
{
    uint32_t best = table->tuples.count ? ss_find_tuples(table, key, words) : SS_NO_ROW;
    for (uint32_t b = 0; b < table->blocks.count; b++) {
        struct ss_vectors *block = table->blocks.order[b];
        if (best != SS_NO_ROW && ss_rule_beats(table, best, block->rows[0]))
            break;
        uint32_t row = ss_find_vectors(table, block, key, words);
        if (row != SS_NO_ROW)
            return best == SS_NO_ROW || ss_rule_beats(table, row, best) ? row : best;
    }
    return best;
}

static SS_INLINE bool ss_value_set_has(const struct ss_value_set *set, const uint64_t *key, uint32_t words)
{
    for (uint32_t m = 0; m < set->count; m++) {
        uint64_t difference = 0;
        for (uint32_t w = 0; w < words; w++)
            difference |= (key[w] ^ set->values[m * words + w]) & set->masks[m * words + w];
        if (!difference)
            return true;
    }
    return false;
}

/* The packet's colour (0 green, 1 yellow, 2 red); green while the meter has no rates. */
static SS_INLINE uint32_t ss_meter_execute(struct ss_state *state, struct ss_meter *meter, uint64_t index, uint32_t bytes)
{
    if (!meter->buckets || index >= meter->size || !meter->rates[index].configured)
        return 0;
    return ss_meter_run(state, meter, (uint32_t)index, bytes);
}

static SS_INLINE struct ss_row *ss_member_row(const struct ss_profile *profile, uint32_t slot)
{
    return (struct ss_row *)(profile->rows + (size_t)slot * profile->stride);
}

/* The row with the action: the row itself, its member's, or that of the group's member chosen by `hash`; NULL when
 * the group has no live member. */
static SS_INLINE struct ss_row *ss_resolve(const struct ss_profile *profile, struct ss_row *row, uint64_t hash)
{
    if (row->kind == SS_DIRECT)
        return row;
    if (row->kind == SS_MEMBER)
        return ss_member_row(profile, row->reference);
    const struct ss_group *group = &profile->groups[row->reference];
    if (group->live_count == 0)
        return NULL;
    return ss_member_row(profile, group->live[hash % group->live_count]);
}

#endif
