// The sizes of blocks and tasks of products: what stays in which cache, and what threads share.

// The least tiles that share a panel of a packed B and fetch the rows behind it: with fewer, each would have to fetch
// more than memory gives while it multiplies.
enum { FETCHING = 8 };

// Panels of a packed B that stay in L2 beside a block of rows of A, KC terms of each, and the most elements of A that
// are packed at a time.
enum { NEAR_PANELS = 8, PACKED = 1 << 20 };

// Blocks: a panel of B, KC x nr elements, stays in L1, and a block of A, MB x KC, in L2. At most SHARED_N columns of B
// are packed at a time. A task that does not pack its rows of A has NB columns.
// Tasks that pack rows of A: each thread gets at least TASKS of them. If B has at most FEW_COLUMNS columns, such a task
// may be as small as FEW_TILES tiles of rows.
enum { KC = 256, MB = 96, NB = 256, SHARED_N = 4096, TASKS = 4, FEW_COLUMNS = 1024, FEW_TILES = 4 };

// An A with contiguous columns is packed LINES columns at a time. Columns that lie a whole number of pages apart share
// few sets of the L1 cache, so more of them would evict each other.
enum { LINES = 16 };

// The most bytes between rows of B that a tile reads in place and packs meanwhile.
enum { KEPT_APART = 3 << 10 };

// A B with several dims of K or N is read in place, without packing, if K is at most RAW_K and the elements between its
// columns are at most one for each RAW_WASTE columns.
enum { RAW_K = 4 * KC, RAW_WASTE = 4 };

// A product with one row and a B of several dims is a sum over windows if K is at most RAW_K and its columns are at
// most WINDOW_STEP elements apart.
enum { WINDOW_STEP = 2 };

// Elements of the lines whose windows are summed before their epilogue runs: they stay in L1.
enum { LINES_NEAR = 2048 };

// Multiplications of the least task of a product over padded pictures.
enum { PLANES = 1 << 16 };

// A product with one row is split over K into PARTS partial sums if each part has at least PART_ROWS rows of B and a
// row has at most PART_COLUMNS columns.
enum { PARTS = 8, PART_ROWS = 32, PART_COLUMNS = 4096 };

// A product of one row takes ROW_PANELS panels of a packed B at a time. A task has at least ROW_TASK multiplications.
enum { ROW_PANELS = 4, ROW_TASK = 1 << 16 };

// Threads share a product from SHARED multiplications on. If its operands and result have at most NEAR elements
// together, they share it from ALONE on: waking a thread takes about as long as ALONE multiplications of operands in
// cache.
enum { SHARED = 1 << 18, ALONE = 1 << 20, NEAR = 1 << 16 };

// Most bytes of B's panels that stay in L2 while rows of A pass through it.
enum { FEW_PANELS = 1 << 17 };

// An A of at most NEAR_ROWS rows, and of as many bytes as stay in L2 (the table's near), is read in place for each
// panel of B.
enum { NEAR_ROWS = 512 };

// Most positions of a block, where rows of A are in panels: they stay in L2, KC terms of each.
enum { SPOTS = 224 };

// Terms that tiles of windows in place sum at a time, about: a panel of as many rows stays in L1 beside the windows.
enum { NEAR_K = 128 };

// A product of at least TURN_ROWS rows and depth TURN_K is computed as its transpose, from panels of A', if it has at
// most TURN_N columns, or if B cannot be read in place.
enum { TURN_ROWS = 24, TURN_K = 32, TURN_N = 1024 };

// Most rows of a product that is computed as its transpose.
enum { TRANSPOSE_ROWS = 64 };

// Up to OWN_THREADS threads pack a block of B each if it has at most OWN_BYTES bytes and there are OWN_ROWS rows of A
// for each.
enum { OWN_THREADS = 8, OWN_BYTES = 1 << 20, OWN_ROWS = 96 };
