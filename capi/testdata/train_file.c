/* Trains from a file of export_training with inputs "x" of shape [4, 2] and "y" of shape [4, 1], and a parameter
 * "weight": reads the loss, reads and writes state, saves, and goes on from the saved file. Its arguments are the file
 * and a path for the saved one. It prints the losses of ten steps. */
#include "torchlette.h"

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

static float x[] = {1, 0, 0, 1, 1, 1, 2, -1}, y[] = {2, -3, -1, 7};

static double step(uint64_t training, int32_t evaluate) {
    const tl_session_value in[] = {
        {.dtype = TL_FLOAT32, .rank = 2, .shape = {4, 1}, .data = y, .bytes = sizeof y, .name = "y"},
        {.dtype = TL_FLOAT32, .rank = 2, .shape = {4, 2}, .data = x, .bytes = sizeof x, .name = "x"},
    };
    double loss;
    check(tl_training_step(training, in, 2, evaluate, &loss), "tl_training_step");
    return loss;
}

static void describe(uint64_t training) {
    tl_session_value v[32];
    int32_t n, found = 0;
    check(tl_training_describe(training, 0, v, 32, &n), "tl_training_describe");
    require(n == 2 && strcmp(v[0].name, "x") == 0 && v[0].shape[0] == 4 && v[0].shape[1] == 2, "two inputs");
    check(tl_training_describe(training, 1, v, 32, &n), "tl_training_describe");
    for (int32_t i = 0; i < n && i < 32; i++) {
        found += strcmp(v[i].name, "weight") == 0 || strcmp(v[i].name, "optimizer.param_groups.0.lr") == 0;
    }
    require(found == 2, "state: the weight, and the learning rate");
}

/* A call that fails says why, and the session goes on. */
static void refuse(uint64_t training) {
    double loss;
    tl_session_value v = {.dtype = TL_FLOAT32, .rank = 1, .shape = {8}, .data = x, .bytes = sizeof x, .name = "weight"};
    require(tl_training_write(training, &v) == TL_VALUE, "another shape");
    require(tl_training_read(training, "nothing", &v) == TL_VALUE, "an unknown name");
    require(strstr(tl_last_error()->message, "no state") != NULL, "its error");
    require(tl_training_step(training, NULL, 0, 0, &loss) == TL_VALUE, "no inputs");
    require(tl_training_step(training + 1, NULL, 0, 0, &loss) == TL_HANDLE, "an unknown session");
    require(tl_training_save(training, "/no/such/folder/file") != TL_OK, "a folder that is missing");
}

/* A step at the rate 0 leaves the weight as it is. */
static void rate(uint64_t training) {
    tl_session_value lr, weight;
    float before[2];
    check(tl_training_read(training, "weight", &weight), "tl_training_read");
    require(weight.dtype == TL_FLOAT32 && weight.bytes == sizeof before, "the weight's type");
    memcpy(before, weight.data, sizeof before);
    check(tl_training_read(training, "optimizer.param_groups.0.lr", &lr), "tl_training_read");
    double old = *(double *)lr.data, zero = 0;
    lr.data = &zero;
    check(tl_training_write(training, &lr), "tl_training_write");
    step(training, 0);
    check(tl_training_read(training, "weight", &weight), "tl_training_read");
    require(memcmp(before, weight.data, sizeof before) == 0, "a step at the rate 0");
    lr.data = &old;
    check(tl_training_write(training, &lr), "tl_training_write");
}

int main(int argc, char **argv) {
    uint64_t training, second;
    require(argc == 3 && tl_abi_version() == TL_ABI_VERSION, "two files, and the header's version");
    check(tl_training_open(argv[1], "cpu", &training), "tl_training_open");
    describe(training);
    for (int i = 0; i < 5; i++) {
        printf("%.9g\n", step(training, 0));
    }
    refuse(training);
    require(step(training, 1) == step(training, 1), "evaluation changes nothing");
    check(tl_training_save(training, argv[2]), "tl_training_save");
    check(tl_training_open(argv[2], NULL, &second), "tl_training_open of the saved file");
    for (int i = 0; i < 5; i++) {
        double loss = step(training, 0);
        require(loss == step(second, 0), "the saved file goes on with the same bits");
        printf("%.9g\n", loss);
    }
    rate(training);
    check(tl_training_close(training), "tl_training_close");
    check(tl_training_close(second), "tl_training_close");
    require(tl_training_close(second) == TL_HANDLE, "a session is closed once");
    return 0;
}
