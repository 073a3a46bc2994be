/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the control channel asks of all ports at once: in C, so that the switch's lock is held for microseconds and not
 * while Python runs.
 */
#ifndef SOFTSWITCH_CONTROL_H
#define SOFTSWITCH_CONTROL_H

#include "engine.h"

/* The numbers of the ports that exist, ascending; returns how many. */
uint32_t ss_control_ports(struct ss_switch *, uint32_t ports[SS_PORTS]);

/* One record of Telemetry's ports (p4src/control/telemetry.py): a port's number, then its counts. */
struct ss_control_record { uint64_t port; struct ss_port_stats stats; };
/* Fill records for the ports given; returns how many of them still exist. */
uint32_t ss_control_telemetry(struct ss_switch *, const uint32_t *ports, uint32_t count, struct ss_control_record *);

#endif
