// The instruction sets of the processor, and the tables of vector code for each.
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#include "vector/cpu.h"
#include "vector/sort.h"

#if defined(__x86_64__)
// Bits of XCR0: whether the system saves the wide registers.
static uint64_t xcr0(void) {
	uint32_t lo, hi;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}
#endif

#if defined(__x86_64__)
// Whether this is an Intel processor. Theirs compute pairs of bfloat16 at half the rate of floats, AMD's at twice.
static int intel(void) {
	uint32_t a, b = 0, c, d;
	return __get_cpuid(0, &a, &b, &c, &d) && b == 0x756e6547;
}

// Asks the system for the tiles of AMX, which save 8 KiB for each thread.
static int has_tiles(void) {
#if defined(__linux__)
	enum { REQUEST = 0x1023, TILES = 18 }; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	return (xcr0() >> 17 & 3) == 3 && syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
#else
	return 0;
#endif
}
#endif

#if defined(__aarch64__)
// Whether the processor has the dot products of int8 of ARMv8.2.
static int has_dot(void) {
#if defined(__APPLE__)
	return 1;
#elif defined(__linux__)
	return getauxval(AT_HWCAP) >> 20 & 1; // HWCAP_ASIMDDP
#else
	return 0;
#endif
}
#endif

int tl_isa_has(int isa) {
	if (isa == TLK_ISA_PLAIN) return 1;
#if defined(__x86_64__)
	uint32_t a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0;
	if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
	int osxsave = c >> 27 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;
	if (!osxsave || !fma || !f16c) return 0;
	if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) == 0) return 0;
	if (a >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
	const uint32_t vnni = c7 >> 11 & 1;
	uint64_t x = xcr0();
	if ((x & 6) != 6 || !(b7 >> 5 & 1)) return 0;
	// AVX-512 F, DQ, BW and VL; the system saves opmasks and the upper registers.
	uint32_t want = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
	int avx512 = (b7 & want) == want && (x & 0xe6) == 0xe6;
	switch (isa) {
	case TLK_ISA_AVX2: return 1;
	case TLK_ISA_AVX2_VNNI: return a71 >> 4 & 1;
	case TLK_ISA_AVX512: return avx512;
	case TLK_ISA_AVX512_VNNI: return avx512 && vnni;
	case TLK_ISA_AVX512_BF16: return avx512 && vnni && (a71 >> 5 & 1);
	case TLK_ISA_AMX: return avx512 && vnni && (d7 >> 22 & 1) && (d7 >> 24 & 3) == 3 && has_tiles();
	}
#endif
	return 0;
}

int tl_packs_rows(int isa) {
#if defined(__x86_64__)
	static int known; // 1: no, 2: yes. Threads that find it at once write the same
	int k = __atomic_load_n(&known, __ATOMIC_RELAXED);
	if (!k) __atomic_store_n(&known, k = 1 + intel(), __ATOMIC_RELAXED);
	return isa >= TLK_ISA_AVX512 && k == 2;
#else
	(void)isa;
	return 0;
#endif
}

int tl_isa(void) {
#if defined(__x86_64__)
	if (tl_isa_has(TLK_ISA_AMX)) return TLK_ISA_AMX;
	if (tl_isa_has(TLK_ISA_AVX512_BF16) && !intel()) return TLK_ISA_AVX512_BF16;
	if (tl_isa_has(TLK_ISA_AVX512_VNNI)) return TLK_ISA_AVX512_VNNI;
	if (tl_isa_has(TLK_ISA_AVX512)) return TLK_ISA_AVX512;
	if (tl_isa_has(TLK_ISA_AVX2_VNNI)) return TLK_ISA_AVX2_VNNI;
	if (tl_isa_has(TLK_ISA_AVX2)) return TLK_ISA_AVX2;
#endif
	return TLK_ISA_PLAIN;
}

const char *tl_isa_name(int isa) {
#if defined(__aarch64__)
	return isa == TLK_ISA_PLAIN ? "neon" : "";
#else
	static const char *const names[] = {"plain", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16",
		"amx"};
	return names[isa];
#endif
}

const tl_isa_table *tl_isa_tables(int isa) {
#if defined(__x86_64__)
	if (isa >= TLK_ISA_AVX512) return &tl_table_avx512;
	if (isa >= TLK_ISA_AVX2) return &tl_table_avx2;
#endif
	(void)isa;
	return &tl_table_base;
}

const tl_half_kernel *tl_pair_kernel(int isa) {
#if defined(__x86_64__)
	if (isa == TLK_ISA_AMX) return &tl_pairs_amx;
	if (isa == TLK_ISA_AVX512_BF16) return &tl_pairs_avx512;
#endif
	(void)isa;
	return NULL;
}

const tl_key_sorter *tl_isa_sorter(int isa, int bytes) {
#if defined(__x86_64__)
	if (isa >= TLK_ISA_AVX512) return &tl_keys_avx512[bytes == 8];
	if (isa >= TLK_ISA_AVX2) return &tl_keys_avx2[bytes == 8];
#endif
	(void)isa, (void)bytes;
	return NULL;
}

tl_int8_panel *tl_int8_kernel(int isa) {
#if defined(__x86_64__)
	if (isa == TLK_ISA_AMX) return tl_int8_amx;
	if (isa >= TLK_ISA_AVX512_VNNI) return tl_int8_avx512_vnni;
	if (isa == TLK_ISA_AVX2_VNNI) return tl_int8_avx2_vnni;
#elif defined(__aarch64__)
	if (has_dot()) return tl_int8_neon;
#endif
	return tl_isa_tables(isa)->int8_panel;
}

tl_fn tl_lookup(int isa, const tl_ins *q) { return tl_isa_tables(isa)->fn[q->op][q->type][q->var]; }
