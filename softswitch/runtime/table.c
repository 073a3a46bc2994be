/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tables, from the control plane's side: entries in, out and listed. */
#include "table_impl.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)
#define LARGE_BYTES (LARGE_PAGE / 2)   /* what is worth a large page: small tables stay as small as they are */

struct ss_hash_slot ss_hash_nothing[1] = {{0, SS_NO_ROW}};

/* ---- memory ---- */

static void *need(void *block)
{
    if (!block) {
        fprintf(stderr, "softswitch: out of memory\n");
        abort();
    }
    return block;
}

/* Whole large pages, where the kernel has them: each of the few places that a lookup touches in a large table would
 * miss the TLB otherwise. */
static void *large_block(size_t bytes)
{
    void *block = NULL;
    bytes = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (posix_memalign(&block, LARGE_PAGE, bytes))
        block = NULL;
    else
        madvise(block, bytes, MADV_HUGEPAGE);              /* refused: small pages do */
    return need(block);
}

void *ss_grow(void *array, size_t count, size_t size)
{
    size_t bytes = count * size + 1;
    if (bytes < LARGE_BYTES)
        return need(realloc(array, bytes));
    size_t held = array ? malloc_usable_size(array) : 0;
    if (held >= bytes)
        return array;
    void *grown = large_block(bytes);
    if (held)
        memcpy(grown, array, held);
    free(array);
    return grown;
}

void *ss_zeroed(size_t count, size_t size)
{
    return need(calloc(count + 1, size));
}

/* Room for rows of `stride` bytes, each on its own cache line where it fits one. */
static uint8_t *grow_rows(uint8_t *rows, size_t old_count, size_t count, size_t stride)
{
    void *grown = NULL;
    if (count * stride >= LARGE_BYTES)
        grown = large_block(count * stride);
    else if (posix_memalign(&grown, 64, count * stride))
        grown = need(NULL);
    if (old_count)
        memcpy(grown, rows, old_count * stride);
    memset((uint8_t *)grown + old_count * stride, 0, (count - old_count) * stride);
    free(rows);
    return grown;
}

/* ---- hash index ---- */

static void hash_place(struct ss_hash *hash, uint32_t tag, uint32_t row)
{
    uint32_t i = tag & hash->mask;
    while (hash->slots[i].row != SS_NO_ROW)
        i = (i + 1) & hash->mask;
    hash->slots[i] = (struct ss_hash_slot){tag, row};
}

void ss_hash_add(struct ss_hash *hash, uint32_t tag, uint32_t row)
{
    if (hash->slots == ss_hash_nothing || (hash->used + 1) * 2 > hash->mask + 1) {
        struct ss_hash larger = {.mask = hash->slots == ss_hash_nothing ? 7 : hash->mask * 2 + 1, .used = hash->used};
        larger.slots = ss_grow(NULL, larger.mask + 1, sizeof *larger.slots);
        for (uint32_t i = 0; i <= larger.mask; i++)
            larger.slots[i] = ss_hash_nothing[0];
        for (uint32_t i = 0; i <= hash->mask; i++)
            if (hash->slots[i].row != SS_NO_ROW)
                hash_place(&larger, hash->slots[i].tag, hash->slots[i].row);
        if (hash->slots != ss_hash_nothing)
            free(hash->slots);
        *hash = larger;
    }
    hash_place(hash, tag, row);
    hash->used++;
}

static uint32_t hash_slot_of(const struct ss_hash *hash, uint32_t tag, uint32_t row)
{
    uint32_t i = tag & hash->mask;
    while (hash->slots[i].row != row)
        i = (i + 1) & hash->mask;
    return i;
}

void ss_hash_delete(struct ss_hash *hash, uint32_t tag, uint32_t row)
{
    uint32_t hole = hash_slot_of(hash, tag, row);
    for (uint32_t i = (hole + 1) & hash->mask; hash->slots[i].row != SS_NO_ROW; i = (i + 1) & hash->mask) {
        uint32_t home = hash->slots[i].tag & hash->mask;
        if (((i - home) & hash->mask) >= ((i - hole) & hash->mask)) {
            hash->slots[hole] = hash->slots[i];
            hole = i;
        }
    }
    hash->slots[hole] = ss_hash_nothing[0];
    hash->used--;
}

void ss_hash_replace(struct ss_hash *hash, uint32_t tag, uint32_t row, uint32_t by)
{
    hash->slots[hash_slot_of(hash, tag, row)].row = by;
}

void ss_hash_clear(struct ss_hash *hash)
{
    if (hash->slots && hash->slots != ss_hash_nothing)
        free(hash->slots);
    *hash = (struct ss_hash){ss_hash_nothing, 0, 0};
}

/* ---- keys ---- */

static bool over_width(const uint8_t *bytes, const struct ss_field_info *field)
{
    return field->bits % 8 && bytes[field->offset] >> (field->bits % 8);
}

void ss_pack_field(uint64_t *words, const uint8_t *bytes, const struct ss_field_info *field, struct ss_slot slot)
{
    for (uint32_t i = 0; i < field->bytes; i++) {
        uint32_t place = slot.shift + 8 * (field->bytes - 1 - i);
        words[slot.word + place / 64] |= (uint64_t)bytes[field->offset + i] << (place % 64);
        if (place % 64 > 56 && bytes[field->offset + i] >> (64 - place % 64))
            words[slot.word + place / 64 + 1] |= (uint64_t)bytes[field->offset + i] >> (64 - place % 64);
    }
}

static void ones(uint64_t *words, const struct ss_field_info *field, struct ss_slot slot)
{
    for (uint32_t bit = 0; bit < field->bits; bit++)
        words[slot.word + (slot.shift + bit) / 64] |= 1ull << ((slot.shift + bit) % 64);
}

struct key { uint64_t value[SS_MAX_WORDS], mask[SS_MAX_WORDS], high[SS_MAX_WORDS]; uint32_t prefix; };

/* A prefix given as a mask; -1 when it is none. */
static int prefix_of(const uint8_t *mask, const struct ss_field_info *field)
{
    int length = 0;
    bool ended = false;
    for (uint32_t bit = 8 * field->bytes - field->bits; bit < 8 * field->bytes; bit++) {
        bool set = mask[field->offset + bit / 8] >> (7 - bit % 8) & 1;
        if (set && ended)
            return -1;
        ended |= !set;
        length += set;
    }
    return length;
}

static enum ss_status pack_key(const struct ss_table *table, const struct ss_entry *entry, struct key *key)
{
    const struct ss_table_layout *layout = table->layout;
    memset(key->value, 0, 8 * layout->words);
    memset(key->mask, 0, 8 * layout->words);
    memset(key->high, 0, 8 * layout->words);
    key->prefix = 0;
    for (uint32_t f = 0; f < layout->info.field_count; f++) {
        const struct ss_field_info *field = &layout->info.fields[f];
        struct ss_slot slot = layout->slots[f];
        if (over_width(entry->value, field) || (field->kind != SS_EXACT && over_width(entry->mask, field)))
            return SS_INVALID;
        ss_pack_field(key->value, entry->value, field, slot);
        switch (field->kind) {
        case SS_EXACT:
            ones(key->mask, field, slot);
            break;
        case SS_RANGE:
            ss_pack_field(key->high, entry->mask, field, slot);
            if (memcmp(entry->value + field->offset, entry->mask + field->offset, field->bytes) > 0)
                return SS_INVALID;
            break;
        case SS_LPM: {
            int prefix = prefix_of(entry->mask, field);
            if (prefix < 0)
                return SS_INVALID;
            key->prefix = (uint32_t)prefix;
            ss_pack_field(key->mask, entry->mask, field, slot);
            break;
        }
        default:
            ss_pack_field(key->mask, entry->mask, field, slot);
        }
    }
    /* Masked-out bits never matter; ranges are not masked. */
    uint64_t range[SS_MAX_WORDS];
    memset(range, 0, 8 * layout->words);
    for (uint32_t r = 0; r < layout->range_count; r++)
        ones(range, &layout->info.fields[layout->ranges[r]], layout->slots[layout->ranges[r]]);
    for (uint32_t w = 0; w < layout->words; w++) {
        if (layout->static_mask)
            key->value[w] &= layout->static_mask[w];
        key->value[w] &= key->mask[w] | range[w];
    }
    return SS_OK;
}

static uint32_t key_tag(const struct ss_table *table, const struct key *key, int32_t priority)
{
    uint32_t words = table->layout->words;
    switch (table->layout->method) {
    case SS_METHOD_HASH:
        return ss_tag(key->value, words, 0);
    case SS_METHOD_PREFIX:
        return ss_tag(key->value, words, key->prefix + 1);
    default: {
        uint32_t tag = ss_tag(key->value, words, (uint32_t)priority);
        tag = ss_tag(key->mask, words, tag);
        return ss_tag(key->high, words, tag);
    }
    }
}

static uint32_t find_row(const struct ss_table *table, const struct key *key, int32_t priority)
{
    const struct ss_table_layout *layout = table->layout;
    uint32_t words = layout->words;
    if (layout->method == SS_METHOD_NONE)
        return SS_NO_ROW;
    if (layout->method == SS_METHOD_INDEX)
        return ss_find_index(table, key->value);
    const struct ss_hash *hash = layout->method == SS_METHOD_PREFIX ? &table->prefixes.hash : &table->hash;
    uint32_t tag = key_tag(table, key, priority);
    for (uint32_t i = tag & hash->mask; hash->slots[i].row != SS_NO_ROW; i = (i + 1) & hash->mask) {
        uint32_t row = hash->slots[i].row;
        size_t at = (size_t)row * words;
        if (hash->slots[i].tag != tag || !ss_same(table->keys + at, key->value, words))
            continue;
        if (layout->method == SS_METHOD_PREFIX && ss_row_at(table, row)->prefix != key->prefix)
            continue;
        if (layout->method == SS_METHOD_RULES
            && (!ss_same(table->masks + at, key->mask, words) || !ss_same(table->highs + at, key->high, words)
                || ss_row_at(table, row)->priority != priority))
            continue;
        return row;
    }
    return SS_NO_ROW;
}

/* ---- prefixes ---- */

static void guide_add(struct ss_table *table, const struct key *key)
{
    struct ss_prefixes *prefixes = &table->prefixes;
    uint64_t top = ss_guide_top(table, key->value, table->layout->words);
    struct ss_guide *guide = (struct ss_guide *)ss_find_guide(prefixes, top);
    if (!guide) {
        uint32_t number = prefixes->free_guide;
        if (number != SS_NO_ROW) {
            prefixes->free_guide = (uint32_t)prefixes->guides[number].top;
        } else {
            if (prefixes->guide_count == prefixes->guide_capacity) {
                prefixes->guide_capacity = prefixes->guide_capacity ? prefixes->guide_capacity * 2 : 16;
                prefixes->guides = ss_grow(prefixes->guides, prefixes->guide_capacity, sizeof *prefixes->guides);
            }
            number = prefixes->guide_count++;
            prefixes->guides[number] = (struct ss_guide){0};
        }
        guide = &prefixes->guides[number];
        guide->top = top;
        ss_hash_add(&prefixes->guide_tops, ss_tag(&top, 1, 0), number);
    }
    guide->lengths[(key->prefix - 1) / 64] |= 1ull << ((key->prefix - 1) % 64);
    for (uint32_t c = 0; c < guide->count_count; c++)
        if (guide->counts[c].length == key->prefix) {
            guide->counts[c].rows++;
            return;
        }
    if (guide->count_count == guide->count_capacity) {
        guide->count_capacity = guide->count_capacity ? guide->count_capacity * 2 : 2;
        guide->counts = ss_grow(guide->counts, guide->count_capacity, sizeof *guide->counts);
    }
    guide->counts[guide->count_count++] = (struct ss_guide_count){key->prefix, 1};
}

static void guide_delete(struct ss_table *table, const struct key *key)
{
    struct ss_prefixes *prefixes = &table->prefixes;
    uint64_t top = ss_guide_top(table, key->value, table->layout->words);
    struct ss_guide *guide = (struct ss_guide *)ss_find_guide(prefixes, top);
    uint32_t c = 0;
    while (guide->counts[c].length != key->prefix)
        c++;
    if (--guide->counts[c].rows)
        return;
    guide->lengths[(key->prefix - 1) / 64] &= ~(1ull << ((key->prefix - 1) % 64));
    guide->counts[c] = guide->counts[--guide->count_count];
    if (guide->count_count == 0) {
        uint32_t number = (uint32_t)(guide - prefixes->guides);
        ss_hash_delete(&prefixes->guide_tops, ss_tag(&top, 1, 0), number);
        guide->top = prefixes->free_guide;
        prefixes->free_guide = number;
    }
}

static void prefix_add(struct ss_table *table, const struct key *key, uint32_t row)
{
    struct ss_prefixes *prefixes = &table->prefixes;
    uint32_t at = 0;
    while (at < prefixes->length_count && prefixes->lengths[at].length > key->prefix)
        at++;
    if (at == prefixes->length_count || prefixes->lengths[at].length != key->prefix) {
        prefixes->lengths = ss_grow(prefixes->lengths, prefixes->length_count + 1, sizeof *prefixes->lengths);
        memmove(prefixes->lengths + at + 1, prefixes->lengths + at,
                (prefixes->length_count - at) * sizeof *prefixes->lengths);
        prefixes->lengths[at] = (struct ss_prefix_length){key->prefix, 0};
        prefixes->length_count++;
    }
    prefixes->lengths[at].rows++;
    ss_hash_add(&prefixes->hash, key_tag(table, key, 0), row);
    if (prefixes->guide_bits && key->prefix > prefixes->guide_bits)
        guide_add(table, key);
}

static void prefix_delete(struct ss_table *table, const struct key *key, uint32_t row)
{
    struct ss_prefixes *prefixes = &table->prefixes;
    ss_hash_delete(&prefixes->hash, key_tag(table, key, 0), row);
    if (prefixes->guide_bits && key->prefix > prefixes->guide_bits)
        guide_delete(table, key);
    uint32_t at = 0;
    while (prefixes->lengths[at].length != key->prefix)
        at++;
    if (--prefixes->lengths[at].rows == 0) {
        prefixes->length_count--;
        memmove(prefixes->lengths + at, prefixes->lengths + at + 1,
                (prefixes->length_count - at) * sizeof *prefixes->lengths);
    }
}

static void prefixes_open(struct ss_table *table)
{
    const struct ss_table_layout *layout = table->layout;
    struct ss_prefixes *prefixes = &table->prefixes;
    const struct ss_field_info *field = &layout->info.fields[layout->prefix_field];
    prefixes->guide_bits = field->bits == 128 ? 32 : field->bits > 20 && field->bits <= 64 ? 16 : 0;
    prefixes->guide_tops = (struct ss_hash){ss_hash_nothing, 0, 0};
    prefixes->free_guide = SS_NO_ROW;
    prefixes->masks = ss_zeroed((size_t)(field->bits + 1) * layout->words, 8);
    for (uint32_t length = 0; length <= field->bits; length++) {
        uint64_t *mask = prefixes->masks + (size_t)length * layout->words;
        for (uint32_t f = 0; f < layout->info.field_count; f++) {
            uint32_t bits = layout->info.fields[f].bits, from = f == layout->prefix_field ? bits - length : 0;
            for (uint32_t bit = from; bit < bits; bit++) {
                uint32_t place = layout->slots[f].shift + bit;
                mask[layout->slots[f].word + place / 64] |= 1ull << (place % 64);
            }
        }
        for (uint32_t w = 0; layout->static_mask && w < layout->words; w++)
            mask[w] &= layout->static_mask[w];
    }
}

static void prefixes_close(struct ss_prefixes *prefixes)
{
    for (uint32_t g = 0; g < prefixes->guide_count; g++)
        free(prefixes->guides[g].counts);
    free(prefixes->guides);
    free(prefixes->masks);
    free(prefixes->lengths);
    ss_hash_clear(&prefixes->hash);
    ss_hash_clear(&prefixes->guide_tops);
}

/* ---- rows ---- */

static uint32_t take_row(struct ss_table *table)
{
    if (table->free_row != SS_NO_ROW) {
        uint32_t row = table->free_row;
        table->free_row = table->records[row].next;
        return row;
    }
    if (table->high_water == table->capacity) {
        uint32_t capacity = table->capacity ? table->capacity * 2 : 16;
        size_t words = table->layout->words;
        table->rows = grow_rows(table->rows, table->capacity, capacity, table->stride);
        table->keys = ss_grow(table->keys, capacity, 8 * words);
        if (table->layout->method == SS_METHOD_RULES) {
            table->masks = ss_grow(table->masks, capacity, 8 * words);
            table->highs = ss_grow(table->highs, capacity, 8 * words);
        }
        if (table->layout->info.supports_timeout)
            table->last_hit = ss_grow(table->last_hit, capacity, 8);
        table->records = ss_grow(table->records, capacity, sizeof *table->records);
        table->blobs = ss_grow(table->blobs, capacity, table->blob_stride);
        table->capacity = capacity;
    }
    return table->high_water++;
}

void ss_encode_action(const struct ss_native_action *native, const struct ss_action_info *info, uint8_t *data,
                      const uint8_t *bytes)
{
    memset(data, 0, native->bytes);
    for (uint32_t p = 0; p < info->parameter_count; p++) {
        ss_to_native(data + native->offsets[p], bytes, info->parameter_bits[p]);
        bytes += (info->parameter_bits[p] + 7) / 8;
    }
}

static bool parameters_fit(const struct ss_action_info *info, const uint8_t *bytes)
{
    for (uint32_t p = 0; p < info->parameter_count; p++) {
        if (info->parameter_bits[p] % 8 && bytes[0] >> (info->parameter_bits[p] % 8))
            return false;
        bytes += (info->parameter_bits[p] + 7) / 8;
    }
    return true;
}

static enum ss_status check_action(const struct ss_table *table, const struct ss_action_value *value, bool of_default)
{
    if (value->kind != SS_DIRECT)
        return table->profile && !of_default ? SS_OK : SS_INVALID;
    if (table->profile && !of_default)
        return SS_INVALID;
    for (uint32_t a = 0; a < table->layout->info.action_count; a++)
        if (table->layout->info.actions[a] == value->action)
            return parameters_fit(&table->actions[value->action], value->parameters) ? SS_OK : SS_INVALID;
    return SS_INVALID;
}

/* Give a row an action; the old one's hold on its member or group is released. */
static enum ss_status set_action(struct ss_table *table, struct ss_row *row, uint8_t *parameters,
                                 const struct ss_action_value *value)
{
    struct ss_row old = *row;
    if (value->kind == SS_DIRECT) {
        const struct ss_action_info *info = &table->actions[value->action];
        row->kind = SS_DIRECT;
        row->action = value->action;
        ss_encode_action(&table->natives[value->action], info, row->data, value->parameters);
        if (info->parameter_bytes)
            memmove(parameters, value->parameters, info->parameter_bytes);
    } else {
        enum ss_status status = ss_profile_reference(table->profile, row, value);
        if (status != SS_OK)
            return status;
    }
    if (old.flags & SS_ROW_USED)
        ss_profile_release(table->profile, &old);
    return SS_OK;
}

static void describe(const struct ss_table *table, uint32_t number, struct ss_entry *out)
{
    const struct ss_row *row = ss_row_at(table, number);
    const struct ss_record *record = &table->records[number];
    const uint8_t *blob = table->blobs + (size_t)number * table->blob_stride;
    *out = (struct ss_entry){
        .value = blob, .mask = blob + table->mask_offset,
        .priority = table->layout->info.has_priority ? row->priority : 0,
        .is_const = row->flags & SS_ROW_CONST, .controller_metadata = record->controller_metadata,
        .idle_timeout_ns = record->idle_timeout_ns, .packets = row->count.packets, .bytes = row->count.bytes,
        .last_hit_ns = table->last_hit ? table->last_hit[number] : 0, .slot = number,
    };
    if (row->kind == SS_DIRECT)
        out->action = (struct ss_action_value){SS_DIRECT, row->action, blob + table->parameter_offset, 0};
    else
        ss_profile_describe(table->profile, row, &out->action);
}

/* ---- table.h ---- */

const struct ss_table_info *ss_table_info(const struct ss_table *table) { return &table->layout->info; }

uint32_t ss_table_count(const struct ss_table *table) { return table->count; }

static enum ss_status insert(struct ss_table *table, const struct ss_entry *entry, uint8_t flags, uint64_t *handle)
{
    const struct ss_table_layout *layout = table->layout;
    struct key key;
    if (layout->method == SS_METHOD_NONE)
        return SS_INVALID;
    enum ss_status status = check_action(table, &entry->action, false);
    if (status == SS_OK)
        status = pack_key(table, entry, &key);
    if (status != SS_OK)
        return status;
    int32_t priority = layout->info.has_priority ? entry->priority : 0;
    if (find_row(table, &key, priority) != SS_NO_ROW)
        return SS_EXISTS;
    if (table->count >= layout->info.size)
        return SS_FULL;
    uint32_t number = take_row(table);
    struct ss_row *row = ss_row_at(table, number);
    uint8_t *blob = table->blobs + (size_t)number * table->blob_stride;
    memset(row, 0, sizeof *row);
    status = set_action(table, row, blob + table->parameter_offset, &entry->action);
    if (status != SS_OK) {
        table->records[number].next = table->free_row;
        table->free_row = number;
        return status;
    }
    row->flags = SS_ROW_USED | flags;
    row->priority = layout->method == SS_METHOD_PREFIX ? (int32_t)key.prefix : priority;
    row->prefix = (uint16_t)key.prefix;
    row->count = (struct ss_count){entry->packets, entry->bytes};
    memcpy(blob, entry->value, layout->info.key_bytes);
    if (table->parameter_offset > table->mask_offset)
        memcpy(blob + table->mask_offset, entry->mask, layout->info.key_bytes);
    table->records[number] = (struct ss_record){entry->controller_metadata, entry->idle_timeout_ns, table->sequence++,
                                                SS_NO_ROW, 0};
    if (table->last_hit)
        table->last_hit[number] = entry->last_hit_ns;
    size_t at = (size_t)number * layout->words;
    memcpy(table->keys + at, key.value, 8 * layout->words);
    table->count++;
    switch (layout->method) {
    case SS_METHOD_INDEX:
        table->index[key.value[0]] = number + 1;
        break;
    case SS_METHOD_PREFIX:
        prefix_add(table, &key, number);
        ss_prefixes_changed(table);
        break;
    case SS_METHOD_RULES:
        memcpy(table->masks + at, key.mask, 8 * layout->words);
        memcpy(table->highs + at, key.high, 8 * layout->words);
        ss_hash_add(&table->hash, key_tag(table, &key, priority), number);
        ss_rules_insert(table, number);
        break;
    default:
        ss_hash_add(&table->hash, key_tag(table, &key, priority), number);
    }
    if (handle)
        *handle = number;
    return SS_OK;
}

enum ss_status ss_table_insert(struct ss_table *table, const struct ss_entry *entry, uint64_t *handle)
{
    return table->layout->info.is_const ? SS_CONST : insert(table, entry, 0, handle);
}

static enum ss_status find(const struct ss_table *table, const struct ss_entry *entry, struct key *key, uint32_t *row)
{
    enum ss_status status = pack_key(table, entry, key);
    if (status != SS_OK)
        return status;
    *row = find_row(table, key, table->layout->info.has_priority ? entry->priority : 0);
    return *row == SS_NO_ROW ? SS_NOT_FOUND : SS_OK;
}

enum ss_status ss_table_modify(struct ss_table *table, const struct ss_entry *entry)
{
    struct key key;
    uint32_t number;
    if (table->layout->info.is_const)
        return SS_CONST;
    enum ss_status status = check_action(table, &entry->action, false);
    if (status == SS_OK)
        status = find(table, entry, &key, &number);
    if (status != SS_OK)
        return status;
    uint8_t *blob = table->blobs + (size_t)number * table->blob_stride;
    status = set_action(table, ss_row_at(table, number), blob + table->parameter_offset, &entry->action);
    if (status != SS_OK)
        return status;
    table->records[number].controller_metadata = entry->controller_metadata;
    table->records[number].idle_timeout_ns = entry->idle_timeout_ns;
    if (table->last_hit && entry->last_hit_ns)
        table->last_hit[number] = entry->last_hit_ns;
    return SS_OK;
}

enum ss_status ss_table_remove(struct ss_table *table, const struct ss_entry *entry)
{
    struct key key;
    uint32_t number;
    if (table->layout->info.is_const)
        return SS_CONST;
    enum ss_status status = find(table, entry, &key, &number);
    if (status != SS_OK)
        return status;
    struct ss_row *row = ss_row_at(table, number);
    switch (table->layout->method) {
    case SS_METHOD_INDEX:
        table->index[key.value[0]] = 0;
        break;
    case SS_METHOD_PREFIX:
        prefix_delete(table, &key, number);
        break;
    case SS_METHOD_RULES:
        ss_hash_delete(&table->hash, key_tag(table, &key, row->priority), number);
        ss_rules_remove(table, number);
        break;
    default:
        ss_hash_delete(&table->hash, key_tag(table, &key, row->priority), number);
    }
    ss_profile_release(table->profile, row);
    if (table->layout->info.direct_meter >= 0)
        ss_meter_forget(table->state, (uint32_t)table->layout->info.direct_meter, number);
    row->flags = 0;
    table->records[number].next = table->free_row;
    table->free_row = number;
    table->count--;
    if (table->layout->method == SS_METHOD_PREFIX)
        ss_prefixes_changed(table);
    return SS_OK;
}

enum ss_status ss_table_find(struct ss_table *table, const struct ss_entry *entry, struct ss_entry *out)
{
    struct key key;
    uint32_t number;
    enum ss_status status = find(table, entry, &key, &number);
    if (status == SS_OK)
        describe(table, number, out);
    return status;
}

static void restore_default(struct ss_table *table)
{
    const struct ss_table_layout *layout = table->layout;
    table->default_is_own = true;
    if (layout->default_action == SS_NO_ACTION) {
        table->default_row->kind = SS_DIRECT;
        table->default_row->action = SS_NO_ACTION;
        return;
    }
    struct ss_action_value own = {SS_DIRECT, layout->default_action, layout->default_parameters, 0};
    set_action(table, table->default_row, table->default_parameters, &own);
}

enum ss_status ss_table_set_default(struct ss_table *table, const struct ss_action_value *value)
{
    const struct ss_table_layout *layout = table->layout;
    if (!value) {
        if (!table->default_is_own)
            restore_default(table);
        return SS_OK;
    }
    if (layout->default_is_const || (layout->default_action_is_const && value->action != layout->default_action))
        return SS_CONST;
    enum ss_status status = check_action(table, value, true);
    if (status == SS_OK)
        status = set_action(table, table->default_row, table->default_parameters, value);
    if (status == SS_OK)
        table->default_is_own = false;
    return status;
}

enum ss_status ss_table_get_default(struct ss_table *table, struct ss_entry *out, bool *is_programs_own)
{
    const struct ss_row *row = table->default_row;
    if (is_programs_own)
        *is_programs_own = table->default_is_own;
    *out = (struct ss_entry){.packets = row->count.packets, .bytes = row->count.bytes,
                             .is_const = table->layout->default_is_const};
    out->action = (struct ss_action_value){SS_DIRECT, row->action, table->default_parameters, 0};
    return row->action == SS_NO_ACTION ? SS_NOT_FOUND : SS_OK;
}

bool ss_table_next(struct ss_table *table, uint64_t *cursor, struct ss_entry *out)
{
    while (*cursor < table->high_water) {
        uint32_t number = (uint32_t)(*cursor)++;
        if (ss_row_at(table, number)->flags & SS_ROW_USED) {
            describe(table, number, out);
            return true;
        }
    }
    return false;
}

enum ss_status ss_table_set_direct_counter(struct ss_table *table, const struct ss_entry *entry, uint64_t packets,
                                           uint64_t bytes)
{
    struct key key;
    uint32_t number;
    if (!table->layout->info.has_direct_counter)
        return SS_INVALID;
    struct ss_row *row = table->default_row;
    if (entry) {
        enum ss_status status = find(table, entry, &key, &number);
        if (status != SS_OK)
            return status;
        row = ss_row_at(table, number);
    }
    row->count = (struct ss_count){packets, bytes};
    return SS_OK;
}

/* ---- life ---- */

enum ss_status ss_table_open(struct ss_table *table, const struct ss_table_layout *layout, struct ss_state *state,
                             struct ss_profile *profile, const struct ss_action_info *actions,
                             const struct ss_native_action *natives)
{
    *table = (struct ss_table){.layout = layout, .state = state, .profile = profile, .actions = actions,
                               .natives = natives, .free_row = SS_NO_ROW};
    table->stride = SS_ROW_STRIDE(profile ? 0 : layout->data_bytes);
    bool masked = false;
    uint32_t parameters = 0;
    for (uint32_t f = 0; f < layout->info.field_count; f++)
        masked |= layout->info.fields[f].kind != SS_EXACT;
    for (uint32_t a = 0; a < layout->info.action_count; a++)
        if (actions[layout->info.actions[a]].parameter_bytes > parameters)
            parameters = actions[layout->info.actions[a]].parameter_bytes;
    table->mask_offset = layout->info.key_bytes;
    table->parameter_offset = layout->info.key_bytes * (masked ? 2 : 1);
    table->blob_stride = table->parameter_offset + (profile ? 0 : parameters);
    table->hash = table->prefixes.hash = (struct ss_hash){ss_hash_nothing, 0, 0};
    if (layout->method == SS_METHOD_PREFIX)
        prefixes_open(table);
    if (layout->method == SS_METHOD_INDEX)
        table->index = ss_zeroed((size_t)1 << layout->index_bits, sizeof *table->index);
    table->default_row = (struct ss_row *)grow_rows(NULL, 0, 1, SS_ROW_STRIDE(layout->data_bytes));
    table->default_parameters = ss_zeroed(parameters, 1);
    restore_default(table);
    for (uint32_t e = 0; e < layout->entry_count; e++) {
        const struct ss_const_entry *entry = &layout->entries[e];
        struct ss_entry full = {.value = entry->value, .mask = entry->mask, .priority = entry->priority,
                                .action = {SS_DIRECT, entry->action, entry->parameters, 0}};
        enum ss_status status = insert(table, &full, SS_ROW_CONST, NULL);
        if (status != SS_OK)
            return status;
    }
    return SS_OK;
}

void ss_table_close(struct ss_table *table)
{
    ss_rules_close(table);
    ss_hash_clear(&table->hash);
    prefixes_close(&table->prefixes);
    free(table->rows);
    free(table->keys);
    free(table->masks);
    free(table->highs);
    free(table->last_hit);
    free(table->records);
    free(table->blobs);
    free(table->default_row);
    free(table->default_parameters);
    free(table->index);
}
