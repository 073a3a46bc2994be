/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Up to 64 rules as bit vectors: decomposition (Lakshman and Stiliadis, SIGCOMM 1998). */
#include "table_impl.h"

#include <stdlib.h>

#define BOUNDS (4 * SS_FEW_RULES)  /* of a long range: at most 2 a rule, rounded up to a power of two */

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

/* Which values of a chunk each rule accepts. Returns how many pairs of a value and a rule there are. */
static uint32_t fill_chunk(const struct ss_table *table, const struct ss_vectors *vectors, struct ss_chunk chunk,
                           uint64_t *accepts)
{
    uint32_t words = table->layout->words, cut = (1u << chunk.bits) - 1, pairs = 0;
    uint64_t everywhere = 0;
    memset(accepts, 0, 8 * (cut + 1));
    for (uint32_t bit = 0; bit < vectors->count; bit++) {
        size_t at = (size_t)vectors->rows[bit] * words + chunk.word;
        uint32_t value = table->keys[at] >> chunk.shift & cut;
        if (chunk.range) {
            uint32_t high = table->highs[at] >> chunk.shift & cut;
            for (uint32_t v = value; v <= high; v++)
                accepts[v] |= 1ull << bit;
            continue;
        }
        uint32_t mask = mask_of(table, vectors->rows[bit])[chunk.word] >> chunk.shift & cut, free = cut & ~mask;
        if (!mask) {
            everywhere |= 1ull << bit;
            continue;
        }
        uint32_t v = 0;                                       /* every value that differs in unmasked bits only */
        do {
            accepts[value | v] |= 1ull << bit;
            v = (v - free) & free;
        } while (v);
    }
    for (uint32_t v = 0; v <= cut; v++) {
        accepts[v] |= everywhere;
        pairs += (uint32_t)__builtin_popcountll(accepts[v]);
    }
    return pairs;
}

static void fill_range(const struct ss_table *table, const struct ss_vectors *vectors, uint32_t field,
                       struct ss_vector_range *range, uint64_t *bounds, uint64_t *accepts)
{
    uint32_t words = table->layout->words;
    struct ss_slot slot = table->layout->slots[field];
    uint32_t bits = table->layout->info.fields[field].bits;
    uint64_t cut = ~0ull >> (64 - bits);
    uint32_t used = 1;
    bounds[0] = 0;
    for (uint32_t bit = 0; bit < vectors->count; bit++) {
        size_t at = (size_t)vectors->rows[bit] * words + slot.word;
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
    for (uint32_t bit = 0; bit < vectors->count; bit++) {
        size_t at = (size_t)vectors->rows[bit] * words + slot.word;
        uint64_t low = table->keys[at] >> slot.shift & cut, high = table->highs[at] >> slot.shift & cut;
        for (uint32_t b = 0; b < size; b++) {
            uint64_t v = b < distinct ? bounds[b] : bounds[distinct - 1];
            if (v >= low && v <= high)
                accepts[b] |= 1ull << bit;
        }
    }
    *range = (struct ss_vector_range){slot.word, (uint8_t)slot.shift, size / 2, cut, bounds, accepts};
}

/* Chunks that tell rules apart best come first, so that a lookup can soon give up. */
static void add_chunk(struct ss_vectors *vectors, struct ss_vector_chunk chunk)
{
    uint32_t at = vectors->chunk_count++;
    for (; at > 0 && vectors->chunks[at - 1].share > chunk.share; at--)
        vectors->chunks[at] = vectors->chunks[at - 1];
    vectors->chunks[at] = chunk;
}

void ss_vectors_build(const struct ss_table *table, struct ss_vectors *vectors)
{
    const struct ss_table_layout *layout = table->layout;
    uint32_t count = vectors->count;
    if (!vectors->storage) {
        vectors->storage = ss_zeroed((size_t)layout->chunk_count * 256 + (size_t)layout->range_count * 2 * BOUNDS, 8);
        vectors->chunks = ss_zeroed(layout->chunk_count + SS_CHUNKS_AT_ONCE - 1, sizeof *vectors->chunks);
        vectors->ranges = ss_zeroed(layout->range_count, sizeof *vectors->ranges);
    }
    vectors->all = count == 64 ? ~0ull : (1ull << count) - 1;
    vectors->chunk_count = vectors->range_count = 0;
    vectors->verify = vectors->stale = false;
    uint64_t *storage = vectors->storage;
    for (uint32_t c = 0; count && c < layout->chunk_count; c++) {
        struct ss_chunk chunk = layout->chunks[c];
        uint32_t pairs = fill_chunk(table, vectors, chunk, storage + 256 * c);
        if (pairs < count << chunk.bits) {                    /* or every rule accepts all: the chunk needs no look */
            uint32_t share = ((pairs << 16) >> chunk.bits) / count;
            add_chunk(vectors, (struct ss_vector_chunk){chunk.word * 8u + chunk.shift / 8u, share, storage + 256 * c});
        }
    }
    storage += 256 * layout->chunk_count;
    for (; vectors->chunk_count % SS_CHUNKS_AT_ONCE; vectors->chunk_count++)
        vectors->chunks[vectors->chunk_count] = vectors->chunks[vectors->chunk_count - 1];
    for (uint32_t r = 0; count && r < layout->range_count; r++) {
        const struct ss_field_info *field = &layout->info.fields[layout->ranges[r]];
        if (field->bits > 64)
            vectors->verify = true;
        if (!long_range(field))
            continue;
        fill_range(table, vectors, layout->ranges[r], &vectors->ranges[vectors->range_count], storage, storage + BOUNDS);
        if (vectors->ranges[vectors->range_count].steps)
            vectors->range_count++;
        storage += 2 * BOUNDS;
    }
}

/* A long range's vectors by the value's upper byte: all that a bound stands in, one of the others. */
static void fill_pages(const struct ss_vector_range *range, struct ss_vector_pages *pages)
{
    uint32_t size = 2 * range->steps, at = 0, used = 0;      /* without bounds there is one vector, at 0 */
    uint32_t most = size < 256 ? size + 2 : 257;             /* a page a bound, the others' vectors, one being filled */
    pages->accepts = ss_grow(pages->accepts, 256 * most, sizeof *pages->accepts);
    for (uint32_t upper = 0; upper < 256; upper++) {
        uint32_t first = used;
        bool alike = true;
        for (uint32_t value = upper << 8; value >> 8 == upper; value++) {
            while (at + 1 < size && range->bounds[at + 1] <= value)
                at++;
            pages->accepts[used++] = range->accepts[at];
            alike &= range->accepts[at] == pages->accepts[first];
        }
        if (alike)
            used = first + 1;
        pages->first[upper] = first << 8 | (alike ? 0 : 0xff);
    }
    pages->accepts = ss_grow(pages->accepts, used, sizeof *pages->accepts);
}

void ss_vectors_page(const struct ss_table *table, struct ss_vectors *vectors)
{
    const struct ss_table_layout *layout = table->layout;
    uint64_t *bounds = vectors->storage + 256 * layout->chunk_count;
    if (!vectors->pages)
        vectors->pages = ss_zeroed(layout->range_count, sizeof *vectors->pages);
    for (uint32_t r = 0; r < layout->range_count; r++) {
        const struct ss_field_info *field = &layout->info.fields[layout->ranges[r]];
        if (!long_range(field))
            continue;
        if (field->bits <= 16) {
            struct ss_vector_range range;
            fill_range(table, vectors, layout->ranges[r], &range, bounds, bounds + BOUNDS);
            fill_pages(&range, &vectors->pages[r]);
        }
        bounds += 2 * BOUNDS;
    }
}

void ss_vectors_gather(const struct ss_table *table, struct ss_vectors *vectors)
{
    vectors->count = 0;
    for (uint32_t row = 0; row < table->high_water; row++)
        if (ss_row_at(table, row)->flags & SS_ROW_USED)
            vectors->rows[vectors->count++] = row;
    qsort_r(vectors->rows, vectors->count, sizeof *vectors->rows, by_priority, (void *)table);
}

void ss_vectors_free(const struct ss_table *table, struct ss_vectors *vectors)
{
    for (uint32_t r = 0; vectors->pages && r < table->layout->range_count; r++)
        free(vectors->pages[r].accepts);
    free(vectors->pages);
    free(vectors->storage);
    free(vectors->chunks);
    free(vectors->ranges);
    free(vectors);
}
