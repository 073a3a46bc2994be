/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * even.c for more than 65,536 chunks.
 */
#define WIDE
#include "even.c"
