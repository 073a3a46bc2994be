/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The hash and checksum algorithms of v1model. */
#include "checksum.h"

static uint16_t arc[256], ccitt[256];
static uint32_t ethernet[256];
static uint64_t iso[256];
static uint8_t smbus[256];

/* A reflected CRC keeps its register mirrored, and so its polynomial. */
__attribute__((constructor)) static void fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint16_t a = (uint16_t)byte, c = (uint16_t)(byte << 8);
        uint32_t e = byte;
        uint64_t i = byte;
        uint8_t s = (uint8_t)byte;
        for (int bit = 0; bit < 8; bit++) {
            a = (uint16_t)(a & 1 ? a >> 1 ^ 0xa001 : a >> 1);
            c = (uint16_t)(c & 0x8000 ? c << 1 ^ 0x1021 : c << 1);
            e = e & 1 ? e >> 1 ^ 0xedb88320u : e >> 1;
            i = i & 1 ? i >> 1 ^ 0xd800000000000000ull : i >> 1;
            s = (uint8_t)(s & 0x80 ? s << 1 ^ 0x07 : s << 1);
        }
        arc[byte] = a;
        ccitt[byte] = c;
        ethernet[byte] = e;
        iso[byte] = i;
        smbus[byte] = s;
    }
}

uint64_t ss_crc16(const uint8_t *bytes, size_t length)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < length; i++)
        crc = (uint16_t)(crc >> 8 ^ arc[(crc ^ bytes[i]) & 0xff]);
    return crc;
}

uint64_t ss_crc32(const uint8_t *bytes, size_t length)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++)
        crc = crc >> 8 ^ ethernet[(crc ^ bytes[i]) & 0xff];
    return (uint32_t)~crc;
}

uint64_t ss_crc_ccitt(const uint8_t *bytes, size_t length)
{
    uint16_t crc = UINT16_MAX;
    for (size_t i = 0; i < length; i++)
        crc = (uint16_t)(crc << 8 ^ ccitt[(crc >> 8 ^ bytes[i]) & 0xff]);
    return crc;
}

uint64_t ss_crc8(const uint8_t *bytes, size_t length)
{
    uint8_t crc = 0;
    for (size_t i = 0; i < length; i++)
        crc = smbus[crc ^ bytes[i]];
    return crc;
}

uint64_t ss_crc64(const uint8_t *bytes, size_t length)
{
    uint64_t crc = 0;
    for (size_t i = 0; i < length; i++)
        crc = crc >> 8 ^ iso[(crc ^ bytes[i]) & 0xff];
    return crc;
}

uint64_t ss_xor16(const uint8_t *bytes, size_t length)
{
    uint16_t value = 0;
    for (size_t i = 0; i < length; i++)
        value ^= (uint16_t)(i % 2 ? bytes[i] : bytes[i] << 8);
    return value;
}

uint64_t ss_xor32(const uint8_t *bytes, size_t length)
{
    uint32_t value = 0;
    for (size_t i = 0; i < length; i++)
        value ^= (uint32_t)bytes[i] << (24 - i % 4 * 8);
    return value;
}

uint64_t ss_sum16(const uint8_t *bytes, size_t length)
{
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 4 <= length; i += 4)                          /* halves of a 32-bit word add up to the same, folded */
        sum += ss_load32(bytes + i);
    for (; i < length; i++)
        sum += (uint64_t)bytes[i] << (i % 2 ? 0 : 8);
    return sum;
}
