/* Runs a saved program of one input "x" of shape [n, 3] and one output "y" of shape [n, 2], y = x W' + b, for n = 1
 * and 2; W = [[1, 2, 3], [4, 5, 6]], b = [10, 20]. Its argument is the file. */
#include "torchlette.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int32_t status, const char *what) {
    if (status != TL_OK) {
        fprintf(stderr, "%s: status %d: %s\n", what, status, tl_last_error()->message);
        exit(1);
    }
}

static void require(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "failed: %s\n", what);
        exit(1);
    }
}

/* What the session says of its input and its output. */
static void describe(uint64_t session) {
    tl_session_value v;
    int32_t n;
    check(tl_session_describe(session, 0, &v, 1, &n), "tl_session_describe");
    require(n == 1 && strcmp(v.name, "x") == 0, "one input x");
    require(v.dtype == TL_FLOAT32 && v.rank == 2 && v.shape[0] == -1 && v.shape[1] == 3, "float32 of [n, 3]");
    check(tl_session_describe(session, 1, &v, 1, &n), "tl_session_describe");
    require(n == 1 && strcmp(v.name, "y") == 0 && v.shape[1] == 2, "one output y");
}

static tl_session_value input(float *x, int64_t n) {
    tl_session_value v = {
        .dtype = TL_FLOAT32, .rank = 2, .shape = {n, 3}, .data = x, .bytes = (size_t)n * 12, .name = "x"};
    return v;
}

static void run(uint64_t session, int64_t n) {
    float x[] = {1, 0, 0, 1, 1, -1};
    const float want[] = {11, 24, 10, 23};
    tl_session_value in = input(x, n), out;
    int32_t count;
    check(tl_session_run(session, &in, 1, &out, 1, &count), "tl_session_run");
    require(count == 1 && out.shape[0] == n && out.shape[1] == 2 && out.bytes == (size_t)n * 8, "the output's shape");
    for (int64_t i = 0; i < 2 * n; i++) {
        require(fabsf(((float *)out.data)[i] - want[i]) < 1e-5f, "the output's values");
    }
}

/* A call that fails says why, and the session goes on. */
static void refuse(uint64_t session) {
    float x[3] = {0};
    tl_session_value in = input(x, 1), out;
    int32_t count;
    strcpy(in.name, "z");
    require(tl_session_run(session, &in, 1, &out, 1, &count) == TL_VALUE, "an unknown input");
    require(strstr(tl_last_error()->message, "unknown input") != NULL, "its error");
    in = input(x, 1);
    in.dtype = TL_INT64;
    require(tl_session_run(session, &in, 1, &out, 1, &count) == TL_VALUE, "another dtype");
    require(tl_session_run(session, NULL, 0, &out, 1, &count) == TL_VALUE, "no input");
    require(tl_session_run(session + 1, &in, 1, &out, 1, &count) == TL_HANDLE, "an unknown session");
    require(tl_session_open("no such file", "cpu", 1, &session) != TL_OK, "a missing file");
    require(tl_session_open("no such file", "abacus", 1, &session) != TL_OK, "an unknown device");
}

int main(int argc, char **argv) {
    uint64_t session;
    require(argc == 2 && tl_abi_version() == TL_ABI_VERSION, "one file, and the header's version");
    check(tl_session_open(argv[1], "cpu", 1, &session), "tl_session_open");
    describe(session);
    run(session, 1);
    run(session, 2);
    refuse(session);
    run(session, 1);
    check(tl_session_close(session), "tl_session_close");
    require(tl_session_close(session) == TL_HANDLE, "a session is closed once");
    puts("y = x W' + b, from C");
    return 0;
}
