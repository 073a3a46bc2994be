/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The switch's lock. The data thread holds it for a batch at a time and takes it again at once; a plain mutex would
 * hand it back to the data thread over and over. So a waiter holds the gate: whoever comes next waits behind it.
 */
#include "switch.h"

static uint64_t self(void)
{
    return (uint64_t)pthread_self();
}

void lock_create(struct ss_switch *sw)
{
    pthread_mutex_init(&sw->gate, NULL);
    pthread_mutex_init(&sw->mutex, NULL);
}

void lock_destroy(struct ss_switch *sw)
{
    pthread_mutex_destroy(&sw->gate);
    pthread_mutex_destroy(&sw->mutex);
}

void ss_lock(struct ss_switch *sw)
{
    if (atomic_load_explicit(&sw->owner, memory_order_relaxed) == self()) {
        sw->lock_depth++;
        return;
    }
    atomic_fetch_add_explicit(&sw->waiters, 1, memory_order_relaxed);
    pthread_mutex_lock(&sw->gate);
    pthread_mutex_lock(&sw->mutex);
    atomic_fetch_sub_explicit(&sw->waiters, 1, memory_order_relaxed);
    pthread_mutex_unlock(&sw->gate);
    atomic_store_explicit(&sw->owner, self(), memory_order_relaxed);
    sw->lock_depth = 1;
}

void ss_unlock(struct ss_switch *sw)
{
    if (--sw->lock_depth)
        return;
    atomic_store_explicit(&sw->owner, 0, memory_order_relaxed);
    pthread_mutex_unlock(&sw->mutex);
}
