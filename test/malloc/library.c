// SPDX-License-Identifier: BSL-1.0
// A library that is opened and closed. Its own thread-local object is larger than what the loader keeps for such.
#include <stdlib.h>
#include <string.h>

_Thread_local char t_text[5000];
static char* g_text;

__attribute__((constructor)) static void load(void) { g_text = malloc(1000); }
__attribute__((destructor)) static void unload(void) { free(g_text); }

char* make_text(size_t length) {
    char* const p = malloc(length);
    memset(t_text, 't', sizeof(t_text));
    memset(p, 't', length - 1);
    p[length - 1] = 0;
    return p;
}
