/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * log_msg. */
#include "primitives.h"

static uint32_t decimal(char *to, struct ss_number number)
{
    char digits[40];
    uint32_t count = 0, length = 0;
    ss_u128 rest = number.value;
    if (number.is_signed && (ss_i128)rest < 0) {
        to[length++] = '-';
        rest = 0 - rest;
    }
    do
        digits[count++] = (char)('0' + (int)(rest % 10));
    while (rest /= 10);
    while (count)
        to[length++] = digits[--count];
    return length;
}

void ss_log(const struct ss_engine_services *services, const char *format, uint32_t count, const struct ss_number *numbers)
{
    char text[1024];
    uint32_t length = 0, used = 0;
    if (!services->log)
        return;
    for (const char *c = format; *c && length < sizeof text - 48; c++) {
        if (*c == '\\' && (c[1] == '{' || c[1] == '}')) {
            text[length++] = *++c;
        } else if (*c == '{' && used < count) {
            length += decimal(text + length, numbers[used++]);
            while (c[1] && *c != '}')
                c++;
        } else {
            text[length++] = *c;
        }
    }
    text[length] = 0;
    services->log(services->engine, text);
}
