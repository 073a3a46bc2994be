/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Matching of ternary, range and optional keys: blocks of bit vectors, and tuple space search for masks that many have.
 *
 * The tuple space is merged online as in TupleMerge (Daly et al., IEEE/ACM ToN 2019): a rule may join a tuple that looks
 * at fewer bits than it has, as long as its bucket there stays short. What fits no tuple stays in a block, which costs a
 * lookup about as much as a tuple does. An insert looks at a block and at each tuple once; whether masks have become
 * frequent is asked whenever the blocks have doubled. */
#include "table_impl.h"

#include <stdlib.h>

#define BUCKET_LIMIT 8             /* rules in a bucket, but for those that differ in nothing but priority */
#define TUPLE_LIMIT 48
#define FREQUENT 32                /* rules in blocks that make their mask a tuple */
#define FIRST_REGROUP 4            /* blocks */
#define LEAVE_TUPLES (SS_FEW_RULES / 2)

/* ---- blocks ---- */

static struct ss_vectors *new_block(struct ss_blocks *blocks, uint32_t at)
{
    if (blocks->count == blocks->capacity) {
        blocks->capacity = blocks->capacity ? blocks->capacity * 2 : 4;
        blocks->order = ss_grow(blocks->order, blocks->capacity, sizeof *blocks->order);
    }
    memmove(blocks->order + at + 1, blocks->order + at, (blocks->count++ - at) * sizeof *blocks->order);
    blocks->order[at] = ss_zeroed(1, sizeof **blocks->order);
    return blocks->order[at];
}

static void free_block(struct ss_table *table, uint32_t at)
{
    struct ss_blocks *blocks = &table->blocks;
    ss_vectors_free(table, blocks->order[at]);
    memmove(blocks->order + at, blocks->order + at + 1, (--blocks->count - at) * sizeof *blocks->order);
}

/* The first block whose last row the row beats or is; the last block for a row that all others beat. */
static uint32_t block_of(const struct ss_table *table, uint32_t row)
{
    uint32_t low = 0, high = table->blocks.count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct ss_vectors *block = table->blocks.order[middle];
        if (ss_rule_beats(table, block->rows[block->count - 1], row))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many of a block's rows beat the row. */
static uint32_t place_in(const struct ss_table *table, const struct ss_vectors *block, uint32_t row)
{
    uint32_t low = 0, high = block->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ss_rule_beats(table, block->rows[middle], row))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void append(struct ss_vectors *block, const uint32_t *rows, uint32_t count)
{
    memcpy(block->rows + block->count, rows, count * sizeof *rows);
    block->count += count;
    block->stale = true;
}

static void block_insert(struct ss_table *table, uint32_t row)
{
    struct ss_blocks *blocks = &table->blocks;
    table->records[row].tuple = SS_NO_ROW;
    if (!blocks->count)
        new_block(blocks, 0);
    uint32_t number = block_of(table, row);
    struct ss_vectors *block = blocks->order[number];
    uint32_t at = place_in(table, block, row);
    if (block->count == SS_FEW_RULES) {                       /* rules often come in order: then blocks stay full */
        if (at == SS_FEW_RULES || at == 0) {
            block = new_block(blocks, at ? number + 1 : number);
            at = 0;
        } else {
            struct ss_vectors *upper = new_block(blocks, number + 1);
            block->count = SS_FEW_RULES / 2;
            block->stale = true;
            append(upper, block->rows + SS_FEW_RULES / 2, SS_FEW_RULES / 2);
            if (at > block->count) {
                at -= block->count;
                block = upper;
            }
        }
    }
    memmove(block->rows + at + 1, block->rows + at, (block->count++ - at) * sizeof *block->rows);
    block->rows[at] = row;
    block->stale = true;
}

/* Join a block with the next if they have become small; let an empty one go. */
static void join(struct ss_table *table, uint32_t at)
{
    struct ss_blocks *blocks = &table->blocks;
    struct ss_vectors *block = blocks->order[at];
    if (at + 1 < blocks->count && block->count + blocks->order[at + 1]->count <= SS_FEW_RULES / 2) {
        append(block, blocks->order[at + 1]->rows, blocks->order[at + 1]->count);
        free_block(table, at + 1);
    }
    if (!block->count)
        free_block(table, at);
}

static void block_remove(struct ss_table *table, uint32_t row)
{
    uint32_t number = block_of(table, row);
    struct ss_vectors *block = table->blocks.order[number];
    uint32_t at = place_in(table, block, row);
    memmove(block->rows + at, block->rows + at + 1, (--block->count - at) * sizeof *block->rows);
    block->stale = true;
    join(table, number);
}

static void forget_blocks(struct ss_table *table)
{
    for (uint32_t b = 0; b < table->blocks.count; b++)
        ss_vectors_free(table, table->blocks.order[b]);
    free(table->blocks.order);
    table->blocks = (struct ss_blocks){0};
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

/* May a rule of this mask go into the tuple? */
static bool fits(const struct ss_table *table, const struct ss_tuple *tuple, uint32_t row, const uint64_t *mask)
{
    uint32_t words = table->layout->words;
    for (uint32_t w = 0; w < words; w++)
        if (tuple->mask[w] & ~mask[w])
            return false;
    /* Of rules that differ in nothing but priority a lookup sees the best only. */
    bool alike = !table->layout->range_count && ss_same(tuple->mask, mask, words);
    return alike || bucket_has_room(table, tuple, row);
}

static uint32_t bits_of(const uint64_t *mask, uint32_t words)
{
    uint32_t bits = 0;
    for (uint32_t w = 0; w < words; w++)
        bits += (uint32_t)__builtin_popcountll(mask[w]);
    return bits;
}

/* The tuple with the most bits that has room for a rule; NULL if none has. */
static struct ss_tuple *choose_tuple(const struct ss_table *table, uint32_t row)
{
    uint64_t mask[SS_MAX_WORDS];
    struct ss_tuple *best = NULL;
    rule_mask(table, row, mask);
    for (uint32_t t = 0; t < table->tuples.count; t++) {
        struct ss_tuple *tuple = table->tuples.order[t];
        if ((!best || tuple->bits > best->bits) && fits(table, tuple, row, mask))
            best = tuple;
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
    tuple->bits = bits_of(mask, words);
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

static void tuple_insert(struct ss_table *table, struct ss_tuple *tuple, uint32_t row)
{
    struct ss_tuples *tuples = &table->tuples;
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

static void free_tuple(struct ss_tuples *tuples, struct ss_tuple *tuple)
{
    uint32_t at = 0;
    while (tuples->order[at] != tuple)
        at++;
    memmove(tuples->order + at, tuples->order + at + 1, (--tuples->count - at) * sizeof *tuples->order);
    tuples->by_number[tuple->number] = NULL;
    ss_hash_clear(&tuple->hash);
    free(tuple->mask);
    free(tuple);
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
    if (--tuple->rows == 0)
        free_tuple(tuples, tuple);
}

static void forget_tuples(struct ss_table *table)
{
    while (table->tuples.count)
        free_tuple(&table->tuples, table->tuples.order[table->tuples.count - 1]);
    free(table->tuples.order);
    free(table->tuples.by_number);
    table->tuples = (struct ss_tuples){0};
}

/* ---- from blocks to tuples ---- */

struct popular { uint32_t row, rows; };                       /* a row with the mask, and how many there are */

static bool has_tuple(const struct ss_table *table, const uint64_t *mask)
{
    for (uint32_t t = 0; t < table->tuples.count; t++)
        if (ss_same(table->tuples.order[t]->mask, mask, table->layout->words))
            return true;
    return false;
}

/* Make a tuple of the coarsest mask that many rules in blocks have; NULL if there is none. */
static struct ss_tuple *add_tuple(struct ss_table *table)
{
    const struct ss_blocks *blocks = &table->blocks;
    uint32_t words = table->layout->words, size = 2 * SS_FEW_RULES, best_bits = UINT32_MAX;
    uint64_t mask[SS_MAX_WORDS], other[SS_MAX_WORDS], best[SS_MAX_WORDS];
    while (size < 2 * SS_FEW_RULES * blocks->count)
        size *= 2;
    struct popular *masks = ss_zeroed(size, sizeof *masks);
    for (uint32_t b = 0; b < blocks->count; b++)
        for (uint32_t r = 0; r < blocks->order[b]->count; r++) {
            uint32_t row = blocks->order[b]->rows[r];
            rule_mask(table, row, mask);
            uint32_t i = ss_tag(mask, words, 0) & (size - 1);
            for (; masks[i].rows; i = (i + 1) & (size - 1)) {
                rule_mask(table, masks[i].row, other);
                if (ss_same(mask, other, words))
                    break;
            }
            masks[i].row = row;
            if (++masks[i].rows == FREQUENT && bits_of(mask, words) < best_bits && !has_tuple(table, mask)) {
                best_bits = bits_of(mask, words);
                memcpy(best, mask, 8 * words);
            }
        }
    free(masks);
    return best_bits == UINT32_MAX ? NULL : new_tuple(table, best);
}

/* Finer masks find room in coarser tuples first: the fewer tuples, the quicker a lookup. */
static void regroup(struct ss_table *table)
{
    struct ss_blocks *blocks = &table->blocks;
    struct ss_tuple *tuple;
    uint64_t mask[SS_MAX_WORDS];
    while (table->tuples.count < TUPLE_LIMIT && (tuple = add_tuple(table))) {
        for (uint32_t b = 0; b < blocks->count; b++) {
            struct ss_vectors *block = blocks->order[b];
            uint32_t left = 0;
            for (uint32_t r = 0; r < block->count; r++) {
                rule_mask(table, block->rows[r], mask);
                if (fits(table, tuple, block->rows[r], mask))
                    tuple_insert(table, tuple, block->rows[r]);
                else
                    block->rows[left++] = block->rows[r];
            }
            block->stale |= left < block->count;
            block->count = left;
        }
        for (uint32_t b = blocks->count; b-- > 0;)
            join(table, b);
    }
    blocks->regroup_at = blocks->count < FIRST_REGROUP / 2 ? FIRST_REGROUP : 2 * blocks->count;
}

/* ---- for table.c ---- */

/* Few prefixes are matched as rules whose priority is their length, unless their keys have so many chunks that trying
 * one or two lengths is quicker. */
void ss_prefixes_changed(struct ss_table *table)
{
    table->only = NULL;
    table->by_vectors = table->count <= SS_FEW_RULES
        && (table->layout->chunk_count <= 8 || table->prefixes.length_count > 2);
    if (!table->by_vectors)
        return;
    if (!table->blocks.count)
        new_block(&table->blocks, 0);
    ss_vectors_gather(table, table->blocks.order[0]);
    table->blocks.order[0]->stale = true;
}

void ss_rules_insert(struct ss_table *table, uint32_t row)
{
    table->only = NULL;
    struct ss_tuple *tuple = choose_tuple(table, row);
    if (tuple) {
        tuple_insert(table, tuple, row);
        return;
    }
    block_insert(table, row);
    if (table->blocks.count >= (table->blocks.regroup_at ? table->blocks.regroup_at : FIRST_REGROUP))
        regroup(table);
}

void ss_rules_remove(struct ss_table *table, uint32_t row)
{
    struct ss_blocks *blocks = &table->blocks;
    table->only = NULL;
    if (table->records[row].tuple == SS_NO_ROW) {
        block_remove(table, row);
        if (blocks->regroup_at > 4 * blocks->count)
            blocks->regroup_at = 0;
    } else {
        tuple_remove(table, row);
    }
    if (table->tuples.count && table->count - 1 <= LEAVE_TUPLES) {
        forget_tuples(table);
        for (uint32_t r = 0; r < table->high_water; r++)
            if (r != row && ss_row_at(table, r)->flags & SS_ROW_USED && table->records[r].tuple != SS_NO_ROW)
                block_insert(table, r);
    }
}

void ss_table_settle(struct ss_table *table)
{
    for (uint32_t b = 0; b < table->blocks.count; b++)
        if (table->blocks.order[b]->stale)
            ss_vectors_build(table, table->blocks.order[b]);
    bool prefixes = table->layout->method == SS_METHOD_PREFIX;
    if (prefixes ? !table->by_vectors : table->blocks.count != 1 || table->tuples.count)
        return;
    ss_vectors_page(table, table->blocks.order[0]);
    table->only = table->blocks.order[0];
}

void ss_rules_close(struct ss_table *table)
{
    forget_tuples(table);
    forget_blocks(table);
}
