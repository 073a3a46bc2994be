// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// From the switch's port number to the dense index of statistics.

#ifndef GRADLANE_PORT_P4
#define GRADLANE_PORT_P4

#include "sizes.p4"
#include "types.p4"

control IngressPort(in port_t port, out port_index_t index) {
    action set_port_index(@name("index") port_index_t value) {
        index = value;
    }

    table ingress_port {
        key = { port : exact @name("ingress_port"); }
        actions = { set_port_index; }
        default_action = set_port_index(OTHER_PORTS);
        size = INGRESS_PORT_ROWS;
    }

    apply {
        ingress_port.apply();
    }
}

#endif
