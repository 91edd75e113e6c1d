#include "shim.h"

#include <stdlib.h>
#include <string.h>

#if !defined(_WIN32)
#include <pthread.h>
#endif

enum { TL_MESSAGE_BYTES = 4096 };

typedef struct {
    tl_error error;
    char message[TL_MESSAGE_BYTES];
} record;

// The last failure of each thread. The record is on the heap, because the library's thread-local segment must be small:
// Go makes it static, and a process has less than 2 KB left for static segments of loaded libraries.
static __thread record *last;

// The failure that is reported if no record can be allocated.
static record no_memory = {{TL_OUT_OF_MEMORY, 0, no_memory.message},
    "torchlette: out of memory while reporting an error"};

#if !defined(_WIN32)
static pthread_key_t owner;
static pthread_once_t owner_once = PTHREAD_ONCE_INIT;

static void make_owner(void) { pthread_key_create(&owner, free); }
#endif

static record *own_record(void) {
    if (last == NULL) {
        last = calloc(1, sizeof *last);
#if !defined(_WIN32)
        // Frees the record when the thread ends.
        pthread_once(&owner_once, make_owner);
        pthread_setspecific(owner, last);
#endif
    }
    return last;
}

int tl_forked = 0;

void tlgo_fail(int32_t code, uint32_t source_loc, char *message, size_t bytes) {
    if (bytes >= TL_MESSAGE_BYTES) {
        bytes = TL_MESSAGE_BYTES - 1;
        // Cut the text between two characters of UTF-8.
        while (bytes > 0 && ((unsigned char)message[bytes] & 0xC0) == 0x80) {
            bytes--;
        }
    }
    record *r = own_record();
    if (r == NULL) {
        return;
    }
    memcpy(r->message, message, bytes);
    r->message[bytes] = 0;
    r->error = (tl_error){code, source_loc, r->message};
}

void tlgo_free_c(void *p) { free(p); }

void *tlgo_alloc_c(size_t bytes) { return malloc(bytes); }

int32_t tl_refuse_fork(void) {
    static char text[] =
        "torchlette: the engine does not survive fork(): its threads stay behind in the parent. "
        "Use the start method \"spawn\" (multiprocessing.set_start_method(\"spawn\")).";
    tlgo_fail(TL_RUNTIME, 0, text, sizeof text - 1);
    return TL_RUNTIME;
}

uint32_t tl_abi_version(void) { return TL_ABI_VERSION; }

const tl_error *tl_last_error(void) {
    static const tl_error none = {TL_OK, 0, ""};
    if (own_record() == NULL) {
        return &no_memory.error;
    }
    return last->error.message != NULL ? &last->error : &none;
}

tl_engine_state tl_shared;

tl_engine_state *tl_watch_engine(void) { return &tl_shared; }

void tl_free_text(void *p) { free(p); }

void tl_after_fork(void) { tl_forked = 1; }
