/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control.h"

uint32_t ss_control_ports(struct ss_switch *sw, uint32_t ports[SS_PORTS])
{
    uint32_t count = 0;
    ss_lock(sw);
    for (uint32_t port = 0; port < SS_PORTS; port++)
        if (ss_port_kind(sw, port))
            ports[count++] = port;
    ss_unlock(sw);
    return count;
}

uint32_t ss_control_telemetry(struct ss_switch *sw, const uint32_t *ports, uint32_t count, struct ss_control_record *records)
{
    uint32_t filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        records[filled].port = ports[i];
        if (ss_port_stats(sw, ports[i], &records[filled].stats) == 0)
            filled++;
    }
    return filled;
}
