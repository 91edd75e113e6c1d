/* Opens a session on a file, after one on a small file so that the engine runs, and prints by how many bytes the
 * process's resident memory grew. Its arguments are the small file and the file. */
#define _POSIX_C_SOURCE 200809L
#include "torchlette.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t open_session(const char *path) {
    uint64_t session;
    if (tl_session_open(path, "cpu", 1, &session) != TL_OK) {
        fprintf(stderr, "tl_session_open: %s\n", tl_last_error()->message);
        exit(1);
    }
    return session;
}

static long resident(void) {
    long pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &all, &pages) != 2) exit(2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv) {
    if (argc != 3) return 3;
    uint64_t first = open_session(argv[1]);
    long before = resident();
    uint64_t second = open_session(argv[2]);
    printf("%ld\n", resident() - before);
    return tl_session_close(first) != TL_OK || tl_session_close(second) != TL_OK;
}
