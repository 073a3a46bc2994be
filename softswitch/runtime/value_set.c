/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Parser value sets, from the control plane's side. */
#include "table_impl.h"

#include <stdlib.h>

const struct ss_value_set_info *ss_value_set_info(const struct ss_value_set *set) { return &set->layout->info; }

enum ss_status ss_value_set_write(struct ss_value_set *set, uint32_t count, const uint8_t *values, const uint8_t *masks)
{
    const struct ss_value_set_layout *layout = set->layout;
    size_t words = layout->words, bytes = layout->info.key_bytes;
    if (count > layout->info.size)
        return SS_FULL;
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t f = 0; f < layout->info.field_count; f++) {
            const struct ss_field_info *field = &layout->info.fields[f];
            if (field->bits % 8 && (values[m * bytes + field->offset] | masks[m * bytes + field->offset]) >> (field->bits % 8))
                return SS_INVALID;
        }
    set->values = ss_grow(set->values, count * words, 8);
    set->masks = ss_grow(set->masks, count * words, 8);
    set->blobs = ss_grow(set->blobs, 2 * count * bytes, 1);
    memset(set->values, 0, 8 * count * words);
    memset(set->masks, 0, 8 * count * words);
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t f = 0; f < layout->info.field_count; f++) {
            ss_pack_field(set->values + m * words, values + m * bytes, &layout->info.fields[f], layout->slots[f]);
            ss_pack_field(set->masks + m * words, masks + m * bytes, &layout->info.fields[f], layout->slots[f]);
        }
    for (size_t w = 0; layout->static_mask && w < count * words; w++)
        set->masks[w] &= layout->static_mask[w % words];
    if (count) {
        memcpy(set->blobs, values, count * bytes);
        memcpy(set->blobs + count * bytes, masks, count * bytes);
    }
    set->count = count;
    return SS_OK;
}

bool ss_value_set_read(struct ss_value_set *set, uint32_t index, const uint8_t **value, const uint8_t **mask)
{
    size_t bytes = set->layout->info.key_bytes;
    if (index >= set->count)
        return false;
    *value = set->blobs + index * bytes;
    *mask = set->blobs + (set->count + index) * bytes;
    return true;
}

void ss_value_set_close(struct ss_value_set *set)
{
    free(set->values);
    free(set->masks);
    free(set->blobs);
}
