#include "switch.h"
const struct port_kind port_packet = {.name = "packet", .is_link = true};
