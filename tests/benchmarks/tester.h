/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The benchmark's load generator and sink (tester.c), its forwarders (forwarder.c), and the pipeline alone
 * (pipeline_alone.c).
 */
#ifndef BENCHMARK_TESTER_H
#define BENCHMARK_TESTER_H

#include <stdint.h>

#include "program.h"

#define TESTER_BURST 16
#define TESTER_BUCKETS 100000

struct trial {
    uint64_t sent, received, refused, sending_ns;
    uint32_t latency[TESTER_BUCKETS];  /* packets by latency, in steps of 0.1 us */
};

struct tester;
struct tester *tester_open(const char *out_namespace, const char *out, const char *in_namespace, const char *in);
void tester_close(struct tester *);
/* Send rate * seconds frames in paced bursts, cycling through `frames`; a mark of 16 bytes at mark_offset tells them. */
int tester_run(struct tester *, const uint8_t *frames, uint32_t frame_count, uint32_t frame_bytes,
               uint32_t mark_offset, double rate, uint32_t burst, double seconds, struct trial *);

/* Forward both ways between two interfaces until killed; -1 when they cannot be opened. */
int forward_packet(const char *a, const char *b);
int forward_xdp(const char *a, const char *b);

/* CPU nanoseconds a packet of a program's ingress, egress and deparser; the caller holds the switch's lock. */
double pipeline_alone(const struct ss_program *, struct ss_state *, const uint8_t *frames, uint32_t frame_count,
                      uint32_t frame_bytes, uint32_t port, uint32_t packets, uint64_t *forwarded);

#endif
