#include "shim.h"

#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER)
#define TL_THREAD __declspec(thread)
#else
#define TL_THREAD __thread
#endif

enum { TL_MESSAGE_BYTES = 4096 };

static TL_THREAD struct {
    tl_error error;
    char message[TL_MESSAGE_BYTES];
} last;

int tl_forked = 0;

void tlgo_fail(int32_t code, uint32_t site, char *message, size_t bytes) {
    if (bytes >= TL_MESSAGE_BYTES) {
        bytes = TL_MESSAGE_BYTES - 1;
        // Cut between characters of UTF-8.
        while (bytes > 0 && ((unsigned char)message[bytes] & 0xC0) == 0x80) {
            bytes--;
        }
    }
    memcpy(last.message, message, bytes);
    last.message[bytes] = 0;
    last.error.code = code;
    last.error.site = site;
    last.error.message = last.message;
}

void tlgo_free_c(void *p) { free(p); }

int32_t tl_refuse_fork(void) {
    static char text[] =
        "torchlette: the engine does not survive fork(): its threads stay behind in the parent. "
        "Use the start method \"spawn\" (multiprocessing.set_start_method(\"spawn\")).";
    tlgo_fail(TL_RUNTIME, 0, text, sizeof text - 1);
    return TL_RUNTIME;
}

uint32_t tl_abi_version(void) { return TL_ABI_VERSION; }

const tl_error *tl_last_error(void) {
    if (last.error.message == NULL) {
        last.error.message = last.message;
    }
    return &last.error;
}

void tl_free(void *p) { free(p); }

void tl_after_fork(void) { tl_forked = 1; }
