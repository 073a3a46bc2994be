/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Protocol Buffers' wire format, read in place and written into one growing buffer.
 *
 * A reader never trusts a length: a message that ends early, or holds a group, is `malformed`. A field whose wire
 * type is not the expected one is an unknown field, as in every protobuf implementation: switch on `key`, which is
 * (number, wire type) in one.
 */
#ifndef SOFTSWITCH_WIRE_H
#define SOFTSWITCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WIRE_VARINT(number) ((uint32_t)(number) << 3 | 0)
#define WIRE_BYTES(number) ((uint32_t)(number) << 3 | 2)

struct wire_span { const uint8_t *data; size_t length; };
struct wire_reader { const uint8_t *at, *end; bool malformed; };
struct wire_field { uint32_t key; uint64_t value; struct wire_span bytes; };

static inline struct wire_reader wire_open(struct wire_span span)
{
    return (struct wire_reader){ span.data, span.data + span.length, false };
}

static inline bool wire_varint(struct wire_reader *in, uint64_t *value)
{
    uint64_t result = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end)
            return false;
        uint8_t byte = *in->at++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return true;
        }
    }
    return false;
}

/* The next field; false at the end, or when the message is malformed (then in->malformed is set). */
static inline bool wire_next(struct wire_reader *in, struct wire_field *field)
{
    if (in->at == in->end)
        return false;
    uint64_t key, length;
    in->malformed = true;
    if (!wire_varint(in, &key) || key >> 3 == 0 || key > UINT32_MAX)
        return false;
    field->key = (uint32_t)key;
    field->value = 0;
    field->bytes = (struct wire_span){ in->at, 0 };
    switch (key & 7) {
    case 0:
        if (!wire_varint(in, &field->value))
            return false;
        break;
    case 2:
        if (!wire_varint(in, &length) || length > (size_t)(in->end - in->at))
            return false;
        field->bytes = (struct wire_span){ in->at, (size_t)length };
        in->at += length;
        break;
    case 1:
    case 5: {
        size_t fixed = (key & 7) == 1 ? 8 : 4;
        if (fixed > (size_t)(in->end - in->at))
            return false;
        in->at += fixed;
        break;
    }
    default:
        return false;
    }
    in->malformed = false;
    return true;
}

struct wire_writer { uint8_t *data; size_t length, capacity; bool failed; };

static inline bool wire_reserve(struct wire_writer *out, size_t more)
{
    if (out->capacity - out->length >= more)
        return true;
    if (out->failed)
        return false;
    size_t capacity = out->capacity ? out->capacity : 4096;
    while (capacity - out->length < more)
        capacity *= 2;
    uint8_t *data = realloc(out->data, capacity);
    if (!data) {
        out->failed = true;
        return false;
    }
    out->data = data;
    out->capacity = capacity;
    return true;
}

static inline void wire_free(struct wire_writer *out)
{
    free(out->data);
    *out = (struct wire_writer){ 0 };
}

static inline uint32_t wire_put_raw_varint(uint8_t *at, uint64_t value)
{
    uint32_t count = 0;
    for (; value >= 0x80; value >>= 7)
        at[count++] = (uint8_t)(value | 0x80);
    at[count++] = (uint8_t)value;
    return count;
}

static inline void wire_put_varint(struct wire_writer *out, uint64_t value)
{
    if (wire_reserve(out, 10))
        out->length += wire_put_raw_varint(out->data + out->length, value);
}

/* A scalar field; zero is proto3's default and is left out. */
static inline void wire_put_uint(struct wire_writer *out, uint32_t number, uint64_t value)
{
    if (value) {
        wire_put_varint(out, WIRE_VARINT(number));
        wire_put_varint(out, value);
    }
}

static inline void wire_put_raw(struct wire_writer *out, const void *data, size_t length)
{
    if (length && wire_reserve(out, length)) {
        memcpy(out->data + out->length, data, length);
        out->length += length;
    }
}

/* A bytes, string or message field, written even when empty: callers leave out what is unset. */
static inline void wire_put_bytes(struct wire_writer *out, uint32_t number, const void *data, size_t length)
{
    wire_put_varint(out, WIRE_BYTES(number));
    wire_put_varint(out, length);
    wire_put_raw(out, data, length);
}

/* Open a message field; wire_end closes it. One byte is kept for the length and the content moved if it needs more. */
static inline size_t wire_begin(struct wire_writer *out, uint32_t number)
{
    wire_put_varint(out, WIRE_BYTES(number));
    if (wire_reserve(out, 1))
        out->length++;
    return out->length;
}

static inline void wire_end(struct wire_writer *out, size_t start)
{
    size_t length = out->length - start;
    uint8_t prefix[10];
    uint32_t size = wire_put_raw_varint(prefix, length);
    if (out->failed || !wire_reserve(out, size - 1))
        return;
    if (size > 1)
        memmove(out->data + start + size - 1, out->data + start, length);
    memcpy(out->data + start - 1, prefix, size);
    out->length += size - 1;
}

#endif
