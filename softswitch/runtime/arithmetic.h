/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic that C has no operator for: shifts of any length, division by what may be zero, saturation, and, where a
 * program needs them (SS_WIDE_WORDS), two's complement numbers of more than 128 bits. */
#ifndef SOFTSWITCH_ARITHMETIC_H
#define SOFTSWITCH_ARITHMETIC_H

#include "bytes.h"

static inline uint64_t ss_distance(ss_u128 n) { return n > UINT32_MAX ? UINT32_MAX : (uint64_t)n; }
static inline uint64_t ss_shl_u64(uint64_t v, uint64_t n) { return n < 64 ? v << n : 0; }
static inline ss_u128 ss_shl_u128(ss_u128 v, uint64_t n) { return n < 128 ? v << n : 0; }
static inline uint64_t ss_shr_u64(uint64_t v, uint64_t n) { return n < 64 ? v >> n : 0; }
static inline int64_t ss_shr_i64(int64_t v, uint64_t n) { return v >> (n < 64 ? n : 63); }
static inline ss_u128 ss_shr_u128(ss_u128 v, uint64_t n) { return n < 128 ? v >> n : 0; }
static inline ss_i128 ss_shr_i128(ss_i128 v, uint64_t n) { return v >> (n < 128 ? n : 127); }

#define SS_DIVISION(kind, type)                                                                       \
    static inline type ss_div_##kind(type a, type b) { return b ? a / b : 0; }                       \
    static inline type ss_mod_##kind(type a, type b) { return b ? a % b : 0; }                       \
    static inline type ss_clamp_##kind(type v, type low, type high) { return v < low ? low : v > high ? high : v; }
SS_DIVISION(u64, uint64_t)
SS_DIVISION(i64, int64_t)
SS_DIVISION(u128, ss_u128)
SS_DIVISION(i128, ss_i128)
#undef SS_DIVISION

/* Index into a stack of `size` elements that is followed by one more, for whatever is out of bounds. */
static inline uint64_t ss_index(uint64_t index, uint64_t size) { return index < size ? index : size; }
static inline uint32_t ss_last(uint32_t next, uint32_t size) { return next ? next - 1 : size; }

#ifdef SS_WIDE_WORDS

typedef struct { uint64_t w[SS_WIDE_WORDS]; } ss_wide;

static inline ss_wide ss_wide_from_u128(ss_u128 v)
{
    ss_wide r = {{(uint64_t)v, (uint64_t)(v >> 64)}};
    return r;
}

static inline ss_wide ss_wide_from_i128(ss_i128 v)
{
    ss_wide r;
    memset(&r, v < 0 ? 0xff : 0, sizeof r);
    r.w[0] = (uint64_t)v;
    r.w[1] = (uint64_t)(v >> 64);
    return r;
}

static inline ss_wide ss_wide_from_u64(uint64_t v) { return ss_wide_from_u128(v); }
static inline ss_wide ss_wide_from_i64(int64_t v) { return ss_wide_from_i128(v); }
static inline ss_u128 ss_wide_low128(ss_wide v) { return (ss_u128)v.w[1] << 64 | v.w[0]; }

static inline ss_wide ss_wide_constant(uint32_t count, int fill, const uint64_t *words)
{
    ss_wide r;
    memset(&r, fill ? 0xff : 0, sizeof r);
    for (uint32_t i = 0; i < count && i < SS_WIDE_WORDS; i++)
        r.w[i] = words[i];
    return r;
}

/* Keep `bits` bits. */
static inline ss_wide ss_wide_cut(ss_wide v, uint32_t bits)
{
    for (uint32_t i = 0; i < SS_WIDE_WORDS; i++)
        v.w[i] = 64 * i + 64 <= bits ? v.w[i] : 64 * i >= bits ? 0 : v.w[i] & ((1ull << (bits % 64)) - 1);
    return v;
}

/* Read `bits` bits as two's complement. */
static inline ss_wide ss_wide_sign(ss_wide v, uint32_t bits)
{
    v = ss_wide_cut(v, bits);
    if (v.w[(bits - 1) / 64] >> ((bits - 1) % 64) & 1)
        for (uint32_t i = 0; i < SS_WIDE_WORDS; i++)
            v.w[i] |= 64 * i + 64 <= bits ? 0 : 64 * i >= bits ? ~0ull : ~0ull << (bits % 64);
    return v;
}

static inline ss_wide ss_wide_load(const uint64_t *words, uint32_t bits, int is_signed)
{
    ss_wide r = ss_wide_constant((bits + 63) / 64, 0, words);
    return is_signed ? ss_wide_sign(r, bits) : r;
}

static inline void ss_wide_store(uint64_t *words, uint32_t bits, ss_wide v)
{
    v = ss_wide_cut(v, bits);
    memcpy(words, v.w, (bits + 63) / 64 * 8);
}

static inline ss_wide ss_wide_get(const uint8_t *bytes, uint32_t offset, uint32_t bits)
{
    ss_wide r = {{0}};
    ss_get_bits(r.w, bytes, offset, bits);
    return r;
}

static inline ss_wide ss_wide_add(ss_wide a, ss_wide b)
{
    ss_u128 carry = 0;
    for (uint32_t i = 0; i < SS_WIDE_WORDS; i++) {
        carry += (ss_u128)a.w[i] + b.w[i];
        a.w[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return a;
}

static inline ss_wide ss_wide_not(ss_wide a)
{
    for (uint32_t i = 0; i < SS_WIDE_WORDS; i++)
        a.w[i] = ~a.w[i];
    return a;
}

static inline ss_wide ss_wide_negate(ss_wide a) { return ss_wide_add(ss_wide_not(a), ss_wide_from_u64(1)); }
static inline ss_wide ss_wide_sub(ss_wide a, ss_wide b) { return ss_wide_add(a, ss_wide_negate(b)); }

static inline ss_wide ss_wide_mul(ss_wide a, ss_wide b)
{
    ss_wide r = {{0}};
    for (uint32_t i = 0; i < SS_WIDE_WORDS; i++) {
        ss_u128 carry = 0;
        for (uint32_t j = 0; i + j < SS_WIDE_WORDS; j++) {
            carry += (ss_u128)a.w[i] * b.w[j] + r.w[i + j];
            r.w[i + j] = (uint64_t)carry;
            carry >>= 64;
        }
    }
    return r;
}

#define SS_BITWISE(name, op)                                                                          \
    static inline ss_wide ss_wide_##name(ss_wide a, ss_wide b)                                        \
    {                                                                                                 \
        for (uint32_t i = 0; i < SS_WIDE_WORDS; i++)                                                  \
            a.w[i] = a.w[i] op b.w[i];                                                                \
        return a;                                                                                     \
    }
SS_BITWISE(and, &)
SS_BITWISE(or, |)
SS_BITWISE(xor, ^)
#undef SS_BITWISE

static inline int ss_wide_negative(ss_wide a) { return a.w[SS_WIDE_WORDS - 1] >> 63; }

static inline ss_wide ss_wide_shl(ss_wide a, uint64_t n)
{
    ss_wide r = {{0}};
    if (n >= 64 * SS_WIDE_WORDS)
        return r;
    for (uint32_t i = SS_WIDE_WORDS; i-- > n / 64;) {
        r.w[i] = a.w[i - n / 64] << (n % 64);
        if (n % 64 && i > n / 64)
            r.w[i] |= a.w[i - n / 64 - 1] >> (64 - n % 64);
    }
    return r;
}

static inline ss_wide ss_wide_shr(ss_wide a, uint64_t n)
{
    uint64_t fill = ss_wide_negative(a) ? ~0ull : 0;
    ss_wide r;
    for (uint32_t i = 0; i < SS_WIDE_WORDS; i++) {
        uint64_t from = i + n / 64;
        uint64_t low = from < SS_WIDE_WORDS ? a.w[from] : fill, high = from + 1 < SS_WIDE_WORDS ? a.w[from + 1] : fill;
        r.w[i] = n % 64 ? low >> (n % 64) | high << (64 - n % 64) : low;
    }
    return r;
}

static inline uint64_t ss_wide_distance(ss_wide a)
{
    for (uint32_t i = 1; i < SS_WIDE_WORDS; i++)
        if (a.w[i])
            return UINT32_MAX;
    return ss_distance(a.w[0]);
}

static inline int ss_wide_nonzero(ss_wide a)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < SS_WIDE_WORDS; i++)
        any |= a.w[i];
    return any != 0;
}

static inline int ss_wide_compare(ss_wide a, ss_wide b)
{
    if (ss_wide_negative(a) != ss_wide_negative(b))
        return ss_wide_negative(a) ? -1 : 1;
    for (uint32_t i = SS_WIDE_WORDS; i-- > 0;)
        if (a.w[i] != b.w[i])
            return a.w[i] < b.w[i] ? -1 : 1;
    return 0;
}

static inline ss_wide ss_clamp_wide(ss_wide v, ss_wide low, ss_wide high)
{
    return ss_wide_compare(v, low) < 0 ? low : ss_wide_compare(v, high) > 0 ? high : v;
}

/* Bit by bit, truncating towards zero as C does. */
static inline ss_wide ss_wide_divide(ss_wide a, ss_wide b, ss_wide *remainder)
{
    int a_negative = ss_wide_negative(a), b_negative = ss_wide_negative(b);
    ss_wide quotient = {{0}}, rest = {{0}};
    a = a_negative ? ss_wide_negate(a) : a;
    b = b_negative ? ss_wide_negate(b) : b;
    for (uint32_t bit = 64 * SS_WIDE_WORDS; ss_wide_nonzero(b) && bit-- > 0;) {
        rest = ss_wide_shl(rest, 1);
        rest.w[0] |= a.w[bit / 64] >> (bit % 64) & 1;
        if (ss_wide_compare(rest, b) >= 0) {
            rest = ss_wide_sub(rest, b);
            quotient.w[bit / 64] |= 1ull << (bit % 64);
        }
    }
    *remainder = a_negative ? ss_wide_negate(rest) : rest;
    return a_negative != b_negative ? ss_wide_negate(quotient) : quotient;
}

static inline ss_wide ss_wide_div(ss_wide a, ss_wide b) { ss_wide rest; return ss_wide_divide(a, b, &rest); }
static inline ss_wide ss_wide_mod(ss_wide a, ss_wide b) { ss_wide rest; ss_wide_divide(a, b, &rest); return rest; }

#endif
#endif
