#include "ndxdp.h"
#include "_cgo_export.h"

uint32_t ndx_abi(void) { return NDX_ABI; }
const char *ndx_version(void) { return ndxgo_version(); }
