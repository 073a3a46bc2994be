/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The hash and checksum algorithms of v1model, over bytes. */
#ifndef SOFTSWITCH_CHECKSUM_H
#define SOFTSWITCH_CHECKSUM_H

#include "bytes.h"

#include <stddef.h>

uint64_t ss_crc16(const uint8_t *bytes, size_t length);      /* CRC-16/ARC; also crc16_custom as BMv2 starts it */
uint64_t ss_crc32(const uint8_t *bytes, size_t length);      /* CRC-32; also crc32_custom as BMv2 starts it */
uint64_t ss_crc_ccitt(const uint8_t *bytes, size_t length);  /* CRC-16/CCITT-FALSE */
uint64_t ss_crc8(const uint8_t *bytes, size_t length);       /* crc8_custom as BMv2 starts it */
uint64_t ss_crc64(const uint8_t *bytes, size_t length);      /* crc64_custom as BMv2 starts it */
uint64_t ss_xor16(const uint8_t *bytes, size_t length);
uint64_t ss_xor32(const uint8_t *bytes, size_t length);
uint64_t ss_sum16(const uint8_t *bytes, size_t length);      /* ones' complement sum of big-endian words, not folded */

/* Fold a sum of 16-bit words, and complement it: RFC 1071. */
static inline uint64_t ss_fold16(uint64_t sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

static inline uint64_t ss_csum16(const uint8_t *bytes, size_t length) { return ss_fold16(ss_sum16(bytes, length)); }

/* The first eight bytes as a number. */
static inline uint64_t ss_identity(const uint8_t *bytes, size_t length)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length && i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

#endif
