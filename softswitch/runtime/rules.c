/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Matching of ternary, range and optional keys: bit vectors for few rules, tuple space search for many.
 *
 * Bit vectors follow decomposition (Lakshman and Stiliadis, SIGCOMM 1998); the tuple space is merged online as in
 * TupleMerge (Daly et al., IEEE/ACM ToN 2019): a rule may join a tuple that looks at fewer bits than it has, as long
 * as its bucket there stays short. */
#include "table_impl.h"

#include <stdlib.h>

#define BUCKET_LIMIT 8             /* rules in a bucket before a rule prefers a tuple of its own */
#define TUPLE_LIMIT 48             /* tuples before new ones look at coarser masks */
#define LEAVE_TUPLES (SS_FEW_RULES / 2)

/* ---- bit vectors ---- */

static bool long_range(const struct ss_field_info *field)
{
    return field->bits > 8 && field->bits <= 64;
}

static int by_priority(const void *a, const void *b, void *context)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left == right ? 0 : ss_rule_beats(context, left, right) ? -1 : 1;
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* A row's mask: a rule's own, or that of its prefix length. */
static const uint64_t *mask_of(const struct ss_table *table, uint32_t row)
{
    uint32_t words = table->layout->words;
    return table->masks ? table->masks + (size_t)row * words
                        : table->prefixes.masks + (size_t)ss_row_at(table, row)->prefix * words;
}

/* Which values of a chunk each rule accepts; false when every rule accepts all, so that the chunk needs no look. */
static bool fill_chunk(const struct ss_table *table, struct ss_chunk chunk, uint32_t count, uint64_t *accepts)
{
    uint32_t words = table->layout->words, cut = (1u << chunk.bits) - 1;
    uint64_t everything = table->vectors.all;
    memset(accepts, 0, 8 * (cut + 1));
    for (uint32_t bit = 0; bit < count; bit++) {
        size_t at = (size_t)table->vectors.rows[bit] * words + chunk.word;
        uint32_t value = table->keys[at] >> chunk.shift & cut;
        if (chunk.range) {
            uint32_t high = table->highs[at] >> chunk.shift & cut;
            for (uint32_t v = value; v <= high; v++)
                accepts[v] |= 1ull << bit;
            continue;
        }
        uint32_t mask = mask_of(table, table->vectors.rows[bit])[chunk.word] >> chunk.shift & cut, free = cut & ~mask;
        uint32_t v = 0;                                       /* every value that differs in unmasked bits only */
        do {
            accepts[value | v] |= 1ull << bit;
            v = (v - free) & free;
        } while (v);
    }
    for (uint32_t v = 0; v <= cut; v++)
        if (accepts[v] != everything)
            return true;
    return false;
}

static void fill_range(const struct ss_table *table, uint32_t field, uint32_t count, struct ss_vector_range *range,
                       uint64_t *bounds, uint64_t *accepts)
{
    uint32_t words = table->layout->words;
    struct ss_slot slot = table->layout->slots[field];
    uint32_t bits = table->layout->info.fields[field].bits;
    uint64_t cut = ~0ull >> (64 - bits);
    uint32_t used = 1;
    bounds[0] = 0;
    for (uint32_t bit = 0; bit < count; bit++) {
        size_t at = (size_t)table->vectors.rows[bit] * words + slot.word;
        uint64_t low = table->keys[at] >> slot.shift & cut, high = table->highs[at] >> slot.shift & cut;
        if (low)
            bounds[used++] = low;
        if (high < cut)
            bounds[used++] = high + 1;
    }
    qsort(bounds, used, 8, by_value);
    uint32_t distinct = 1;
    for (uint32_t b = 1; b < used; b++)
        if (bounds[b] != bounds[distinct - 1])
            bounds[distinct++] = bounds[b];
    uint32_t size = 1;
    while (size < distinct)
        size *= 2;
    for (uint32_t b = distinct; b < size; b++)
        bounds[b] = UINT64_MAX;
    memset(accepts, 0, 8 * size);
    for (uint32_t bit = 0; bit < count; bit++) {
        size_t at = (size_t)table->vectors.rows[bit] * words + slot.word;
        uint64_t low = table->keys[at] >> slot.shift & cut, high = table->highs[at] >> slot.shift & cut;
        for (uint32_t b = 0; b < size; b++) {
            uint64_t v = b < distinct ? bounds[b] : bounds[distinct - 1];
            if (v >= low && v <= high)
                accepts[b] |= 1ull << bit;
        }
    }
    *range = (struct ss_vector_range){slot.word, (uint8_t)slot.shift, size / 2, cut, bounds, accepts};
}

static void build_vectors(struct ss_table *table)
{
    const struct ss_table_layout *layout = table->layout;
    struct ss_vectors *vectors = &table->vectors;
    enum { BOUNDS = 4 * SS_FEW_RULES };                       /* at most 2 bounds a rule, rounded up to a power of two */
    if (!vectors->storage) {
        vectors->storage = ss_zeroed((size_t)layout->chunk_count * 256 + (size_t)layout->range_count * 2 * BOUNDS, 8);
        vectors->chunks = ss_zeroed(layout->chunk_count, sizeof *vectors->chunks);
        vectors->ranges = ss_zeroed(layout->range_count, sizeof *vectors->ranges);
    }
    uint32_t count = 0;
    for (uint32_t row = 0; row < table->high_water; row++)
        if (ss_row_at(table, row)->flags & SS_ROW_USED)
            vectors->rows[count++] = row;
    qsort_r(vectors->rows, count, sizeof *vectors->rows, by_priority, table);
    vectors->all = count == 64 ? ~0ull : (1ull << count) - 1;
    vectors->chunk_count = vectors->range_count = 0;
    vectors->verify = false;
    uint64_t *storage = vectors->storage;
    for (uint32_t c = 0; count && c < layout->chunk_count; c++) {
        struct ss_chunk chunk = layout->chunks[c];
        if (fill_chunk(table, chunk, count, storage)) {
            vectors->chunks[vectors->chunk_count++] =
                (struct ss_vector_chunk){chunk.word, chunk.shift, (uint8_t)((1u << chunk.bits) - 1), storage};
            storage += 256;
        }
    }
    for (uint32_t r = 0; count && r < layout->range_count; r++) {
        const struct ss_field_info *field = &layout->info.fields[layout->ranges[r]];
        if (field->bits > 64)
            vectors->verify = true;
        if (!long_range(field))
            continue;
        fill_range(table, layout->ranges[r], count, &vectors->ranges[vectors->range_count], storage, storage + BOUNDS);
        if (vectors->ranges[vectors->range_count].steps)
            vectors->range_count++;
        storage += 2 * BOUNDS;
    }
}

/* ---- tuple space ---- */

/* The bits of a rule that a hash can look at: its mask, and the leading bits that both ends of a range share. */
static void rule_mask(const struct ss_table *table, uint32_t row, uint64_t *mask)
{
    const struct ss_table_layout *layout = table->layout;
    size_t at = (size_t)row * layout->words;
    memcpy(mask, table->masks + at, 8 * layout->words);
    for (uint32_t r = 0; r < layout->range_count; r++) {
        struct ss_slot slot = layout->slots[layout->ranges[r]];
        uint32_t bits = layout->info.fields[layout->ranges[r]].bits;
        for (uint32_t bit = bits; bit-- > 0;) {
            uint32_t word = slot.word + (slot.shift + bit) / 64, shift = (slot.shift + bit) % 64;
            if ((table->keys[at + word] ^ table->highs[at + word]) >> shift & 1)
                break;
            mask[word] |= 1ull << shift;
        }
    }
}

/* Forget the low bits of each partly masked byte, so that rules of slightly different masks share a tuple. */
static void coarsen(uint64_t *mask, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++) {
        uint64_t whole = 0;
        for (uint32_t shift = 0; shift < 64; shift += 8)
            if ((mask[w] >> shift & 0xff) == 0xff)
                whole |= 0xffull << shift;
        if (whole)
            mask[w] = whole;
    }
}

static uint32_t tuple_tag(const struct ss_table *table, const struct ss_tuple *tuple, uint32_t row)
{
    uint64_t masked[SS_MAX_WORDS];
    uint32_t words = table->layout->words;
    for (uint32_t w = 0; w < words; w++)
        masked[w] = table->keys[(size_t)row * words + w] & tuple->mask[w];
    return ss_tag(masked, words, 0);
}

/* The first row of the bucket a rule belongs to, SS_NO_ROW if there is none yet. */
static uint32_t bucket(const struct ss_table *table, const struct ss_tuple *tuple, uint32_t row, uint32_t tag)
{
    uint32_t words = table->layout->words;
    const uint64_t *key = table->keys + (size_t)row * words;
    for (uint32_t i = tag & tuple->hash.mask; tuple->hash.slots[i].row != SS_NO_ROW; i = (i + 1) & tuple->hash.mask) {
        struct ss_hash_slot slot = tuple->hash.slots[i];
        const uint64_t *other = table->keys + (size_t)slot.row * words;
        uint64_t difference = slot.tag ^ tag;
        for (uint32_t w = 0; w < words; w++)
            difference |= (key[w] ^ other[w]) & tuple->mask[w];
        if (!difference)
            return slot.row;
    }
    return SS_NO_ROW;
}

static bool bucket_has_room(const struct ss_table *table, const struct ss_tuple *tuple, uint32_t row)
{
    uint32_t length = 0;
    for (uint32_t r = bucket(table, tuple, row, tuple_tag(table, tuple, row)); r != SS_NO_ROW; r = table->records[r].next)
        if (++length >= BUCKET_LIMIT)
            return false;
    return true;
}

static struct ss_tuple *choose_tuple(struct ss_table *table, uint32_t row, uint64_t *mask)
{
    uint32_t words = table->layout->words;
    struct ss_tuples *tuples = &table->tuples;
    struct ss_tuple *best = NULL;
    uint32_t best_bits = 0;
    rule_mask(table, row, mask);
    for (uint32_t t = 0; t < tuples->count; t++) {
        struct ss_tuple *tuple = tuples->order[t];
        uint32_t bits = 0;
        bool within = true;
        for (uint32_t w = 0; w < words && within; w++) {
            within = (tuple->mask[w] & ~mask[w]) == 0;
            bits += (uint32_t)__builtin_popcountll(tuple->mask[w]);
        }
        if (!within || (best && bits <= best_bits))
            continue;
        if (ss_same(tuple->mask, mask, words) || bucket_has_room(table, tuple, row)) {
            best = tuple;
            best_bits = bits;
        }
    }
    return best;
}

static struct ss_tuple *new_tuple(struct ss_table *table, const uint64_t *mask)
{
    struct ss_tuples *tuples = &table->tuples;
    uint32_t words = table->layout->words;
    struct ss_tuple *tuple = ss_zeroed(1, sizeof *tuple);
    tuple->hash = (struct ss_hash){ss_hash_nothing, 0, 0};
    tuple->mask = ss_grow(NULL, words, 8);
    memcpy(tuple->mask, mask, 8 * words);
    if (tuples->count >= TUPLE_LIMIT) {
        coarsen(tuple->mask, words);
        for (uint32_t t = 0; t < tuples->count; t++)
            if (ss_same(tuples->order[t]->mask, tuple->mask, words)) {
                free(tuple->mask);
                free(tuple);
                return tuples->order[t];
            }
    }
    uint32_t number = 0;
    while (number < tuples->capacity && tuples->by_number[number])
        number++;
    if (number == tuples->capacity) {
        uint32_t capacity = tuples->capacity ? tuples->capacity * 2 : 16;
        tuples->order = ss_grow(tuples->order, capacity, sizeof *tuples->order);
        tuples->by_number = ss_grow(tuples->by_number, capacity, sizeof *tuples->by_number);
        for (uint32_t n = tuples->capacity; n < capacity; n++)
            tuples->by_number[n] = NULL;
        tuples->capacity = capacity;
    }
    tuple->number = number;
    tuple->highest = INT32_MIN;
    tuples->by_number[number] = tuple;
    tuples->order[tuples->count++] = tuple;
    return tuple;
}

static void tuple_insert(struct ss_table *table, uint32_t row)
{
    struct ss_tuples *tuples = &table->tuples;
    uint64_t mask[SS_MAX_WORDS];
    struct ss_tuple *tuple = choose_tuple(table, row, mask);
    if (!tuple)
        tuple = new_tuple(table, mask);
    uint32_t tag = tuple_tag(table, tuple, row), first = bucket(table, tuple, row, tag);
    struct ss_record *records = table->records;
    records[row].tuple = tuple->number;
    if (first == SS_NO_ROW) {
        records[row].next = SS_NO_ROW;
        ss_hash_add(&tuple->hash, tag, row);
    } else if (ss_rule_beats(table, row, first)) {
        records[row].next = first;
        ss_hash_replace(&tuple->hash, tag, first, row);
    } else {
        uint32_t before = first;
        while (records[before].next != SS_NO_ROW && ss_rule_beats(table, records[before].next, row))
            before = records[before].next;
        records[row].next = records[before].next;
        records[before].next = row;
    }
    tuple->rows++;
    int32_t priority = ss_row_at(table, row)->priority;
    if (priority > tuple->highest) {
        tuple->highest = priority;
        uint32_t at = 0;
        while (tuples->order[at] != tuple)
            at++;
        for (; at > 0 && tuples->order[at - 1]->highest < priority; at--)
            tuples->order[at] = tuples->order[at - 1];
        tuples->order[at] = tuple;
    }
}

static void tuple_remove(struct ss_table *table, uint32_t row)
{
    struct ss_tuples *tuples = &table->tuples;
    struct ss_record *records = table->records;
    struct ss_tuple *tuple = tuples->by_number[records[row].tuple];
    uint32_t tag = tuple_tag(table, tuple, row), first = bucket(table, tuple, row, tag);
    if (first == row) {
        if (records[row].next == SS_NO_ROW)
            ss_hash_delete(&tuple->hash, tag, row);
        else
            ss_hash_replace(&tuple->hash, tag, row, records[row].next);
    } else {
        while (records[first].next != row)
            first = records[first].next;
        records[first].next = records[row].next;
    }
    if (--tuple->rows == 0) {
        uint32_t at = 0;
        while (tuples->order[at] != tuple)
            at++;
        memmove(tuples->order + at, tuples->order + at + 1, (--tuples->count - at) * sizeof *tuples->order);
        tuples->by_number[tuple->number] = NULL;
        ss_hash_clear(&tuple->hash);
        free(tuple->mask);
        free(tuple);
    }
}

static void forget_tuples(struct ss_table *table)
{
    for (uint32_t t = 0; t < table->tuples.count; t++) {
        struct ss_tuple *tuple = table->tuples.order[t];
        ss_hash_clear(&tuple->hash);
        free(tuple->mask);
        free(tuple);
    }
    free(table->tuples.order);
    free(table->tuples.by_number);
    table->tuples = (struct ss_tuples){0};
}

/* ---- for table.c and lookups ---- */

/* Few prefixes are matched as rules whose priority is their length, unless their keys have so many chunks that trying
 * one or two lengths is quicker. */
void ss_prefixes_changed(struct ss_table *table)
{
    table->by_vectors = table->count <= SS_FEW_RULES
        && (table->layout->chunk_count <= 8 || table->prefixes.length_count > 2);
    table->vectors_stale = true;
}

void ss_rules_insert(struct ss_table *table, uint32_t row)
{
    if (table->by_tuples) {
        tuple_insert(table, row);
    } else if (table->count > SS_FEW_RULES) {
        table->by_tuples = true;
        table->vectors_stale = false;
        for (uint32_t r = 0; r < table->high_water; r++)
            if (ss_row_at(table, r)->flags & SS_ROW_USED)
                tuple_insert(table, r);
    } else {
        table->vectors_stale = true;
    }
}

void ss_rules_remove(struct ss_table *table, uint32_t row)
{
    if (table->by_tuples) {
        tuple_remove(table, row);
        if (table->count - 1 <= LEAVE_TUPLES) {
            forget_tuples(table);
            table->by_tuples = false;
        }
    }
    table->vectors_stale = !table->by_tuples;
}

void ss_rules_rebuild(struct ss_table *table)
{
    build_vectors(table);
    table->vectors_stale = false;
}

void ss_rules_close(struct ss_table *table)
{
    forget_tuples(table);
    free(table->vectors.storage);
    free(table->vectors.chunks);
    free(table->vectors.ranges);
}
