/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Big-endian packet and control-plane bytes to and from native words.
 *
 * A value of more than 64 bits is an array of 64-bit words, the lowest first. */
#ifndef SOFTSWITCH_BYTES_H
#define SOFTSWITCH_BYTES_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "native values are stored little-endian");

typedef unsigned __int128 ss_u128;
typedef __int128 ss_i128;

static inline uint16_t ss_load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t ss_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t ss_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline uint64_t ss_load24(const uint8_t *p) { return (uint64_t)ss_load16(p) << 8 | p[2]; }
static inline uint64_t ss_load40(const uint8_t *p) { return (uint64_t)ss_load32(p) << 8 | p[4]; }
static inline uint64_t ss_load48(const uint8_t *p) { return (uint64_t)ss_load32(p) << 16 | ss_load16(p + 4); }
static inline uint64_t ss_load56(const uint8_t *p) { return (uint64_t)ss_load32(p) << 24 | ss_load24(p + 4); }
static inline ss_u128 ss_load128(const uint8_t *p) { return (ss_u128)ss_load64(p) << 64 | ss_load64(p + 8); }

static inline void ss_store16(uint8_t *p, uint64_t v) { uint16_t w = __builtin_bswap16((uint16_t)v); memcpy(p, &w, 2); }
static inline void ss_store32(uint8_t *p, uint64_t v) { uint32_t w = __builtin_bswap32((uint32_t)v); memcpy(p, &w, 4); }
static inline void ss_store64(uint8_t *p, uint64_t v) { uint64_t w = __builtin_bswap64(v); memcpy(p, &w, 8); }
static inline void ss_store24(uint8_t *p, uint64_t v) { ss_store16(p, v >> 8); p[2] = (uint8_t)v; }
static inline void ss_store40(uint8_t *p, uint64_t v) { ss_store32(p, v >> 8); p[4] = (uint8_t)v; }
static inline void ss_store48(uint8_t *p, uint64_t v) { ss_store32(p, v >> 16); ss_store16(p + 4, v); }
static inline void ss_store56(uint8_t *p, uint64_t v) { ss_store32(p, v >> 24); ss_store24(p + 4, v); }
static inline void ss_store128(uint8_t *p, ss_u128 v) { ss_store64(p, (uint64_t)(v >> 64)); ss_store64(p + 8, (uint64_t)v); }

/* Bytes of a native value of so many bits: 1, 2, 4, 8, 16 or whole 64-bit words. */
static inline uint32_t ss_native_bytes(uint32_t bits)
{
    return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : bits <= 64 ? 8 : bits <= 128 ? 16 : (bits + 63) / 64 * 8;
}

/* ceil(bits / 8) big-endian bytes to a native value and back. */
static inline void ss_to_native(uint8_t *native, const uint8_t *bytes, uint32_t bits)
{
    uint32_t count = (bits + 7) / 8, size = ss_native_bytes(bits);
    memset(native, 0, size);
    for (uint32_t i = 0; i < count; i++)
        native[count - 1 - i] = bytes[i];
}

static inline void ss_from_native(uint8_t *bytes, const uint8_t *native, uint32_t bits)
{
    uint32_t count = (bits + 7) / 8;
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = native[count - 1 - i];
}

/* `bits` bits that start `offset` bits into `p`, as words (lowest first). Touches only the bytes that hold them. */
static inline void ss_get_bits(uint64_t *words, const uint8_t *p, uint32_t offset, uint32_t bits)
{
    for (uint32_t w = 0; w < (bits + 63) / 64; w++)
        words[w] = 0;
    for (uint32_t done = 0; done < bits;) {
        uint32_t end = offset + bits - done;            /* one past the lowest bit not taken yet */
        uint32_t byte = (end - 1) / 8, have = (end - 1) % 8 + 1, spare = 8 - have;
        uint32_t take = bits - done < have ? bits - done : have;
        uint64_t piece = ((uint64_t)p[byte] >> spare) & ((1u << take) - 1);
        words[done / 64] |= piece << (done % 64);
        if (done % 64 + take > 64)
            words[done / 64 + 1] |= piece >> (64 - done % 64);
        done += take;
    }
}

static inline uint64_t ss_get_bits64(const uint8_t *p, uint32_t offset, uint32_t bits)
{
    uint64_t word;
    ss_get_bits(&word, p, offset, bits);
    return word;
}

static inline ss_u128 ss_get_bits128(const uint8_t *p, uint32_t offset, uint32_t bits)
{
    uint64_t words[2];
    ss_get_bits(words, p, offset, bits);
    return bits > 64 ? (ss_u128)words[1] << 64 | words[0] : words[0];
}

/* `bytes` whole bytes that start `offset` bits into `p`, and back. */
static inline void ss_get_bytes(uint8_t *to, const uint8_t *p, uint32_t offset, uint32_t bytes)
{
    p += offset / 8;
    offset %= 8;
    if (offset == 0)
        memcpy(to, p, bytes);
    else
        for (uint32_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)(p[i] << offset | p[i + 1] >> (8 - offset));
}

static inline void ss_put_bytes(uint8_t *p, uint32_t offset, const uint8_t *from, uint32_t bytes)
{
    p += offset / 8;
    offset %= 8;
    if (offset == 0)
        memcpy(p, from, bytes);
    else
        for (uint32_t i = 0; i < bytes; i++) {
            p[i] = (uint8_t)((p[i] & ~(0xff >> offset)) | from[i] >> offset);
            p[i + 1] = (uint8_t)((p[i + 1] & (0xff >> offset)) | from[i] << (8 - offset));
        }
}

/* Write `bits` bits at `offset`, leaving the others as they are. */
static inline void ss_put_bits(uint8_t *p, uint32_t offset, uint32_t bits, const uint64_t *words)
{
    for (uint32_t done = 0; done < bits;) {
        uint32_t end = offset + bits - done;
        uint32_t byte = (end - 1) / 8, have = (end - 1) % 8 + 1, spare = 8 - have;
        uint32_t take = bits - done < have ? bits - done : have;
        uint64_t piece = words[done / 64] >> (done % 64);
        if (done % 64 + take > 64)
            piece |= words[done / 64 + 1] << (64 - done % 64);
        uint8_t mask = (uint8_t)(((1u << take) - 1) << spare);
        p[byte] = (uint8_t)((p[byte] & ~mask) | ((piece << spare) & mask));
        done += take;
    }
}

#endif
