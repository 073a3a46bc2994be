#include "switch.h"
const struct port_kind port_xdp = {.name = "xdp", .is_link = true};
