// Prints whether a block is given, and whether one is that is larger than the memory; pool_test.go compiles it.
#include "../pool.c"
#include <stdio.h>

int main(void) {
	void *block = tl_alloc(TLK_HUGE_FROM);
	memory_bytes = TLK_HUGE_FROM - 1;
	printf("%d %d\n", block != NULL, tl_alloc(TLK_HUGE_FROM) != NULL);
	tl_cpu_free(block);
	return 0;
}
