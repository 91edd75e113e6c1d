// Memory for machine code: written first, then made executable.
#include <string.h>
#include "vector/cpu.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#endif

void *tl_code_map(const void *code, int64_t bytes) {
#if !defined(__x86_64__)
	(void)code, (void)bytes;
	return NULL;
#elif defined(_WIN32)
	DWORD old;
	void *p = VirtualAlloc(NULL, (SIZE_T)bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
	if (!p) return NULL;
	memcpy(p, code, (size_t)bytes);
	if (VirtualProtect(p, (SIZE_T)bytes, PAGE_EXECUTE_READ, &old)) return p;
	VirtualFree(p, 0, MEM_RELEASE);
	return NULL;
#else
	void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (p == MAP_FAILED) return NULL;
	memcpy(p, code, (size_t)bytes);
	if (mprotect(p, (size_t)bytes, PROT_READ | PROT_EXEC) == 0) return p;
	munmap(p, (size_t)bytes);
	return NULL;
#endif
}

void tl_code_unmap(void *p, int64_t bytes) {
#if defined(_WIN32)
	(void)bytes;
	VirtualFree(p, 0, MEM_RELEASE);
#else
	munmap(p, (size_t)bytes);
#endif
}
