#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "parse/torch_item.h"
#include "save/dcp_meta_put.h"
#include "save/dcp_meta_write.h"

/*
 * The order: all words that repeat (each pushed, memoised, popped, so that its number is below 256
 * however many keys there are), then the Metadata. After the words only keys are memoised, then texts
 * of paths, then names of files: what a number is, is known without a table of them.
 *
 * Source: pytorch/pytorch torch/distributed/checkpoint/metadata.py and filesystem.py, 2.0 to 2.14;
 * docs/formats/dcp.md, section 3.
 */

enum { BATCH = 1000 }; /* items to a MARK, as Python's own pickler has it */

enum word {
	M_METADATA, /* modules first: globals name them */
	M_TORCH,
	M_INFO,
	T_PROPERTIES,
	T_SIZE,
	T_CHUNKS,
	T_OFFSETS,
	T_SIZES,
	T_FQN,
	T_INDEX,
	T_OFFSET,
	T_PATH,
	T_LENGTH,
	T_TRANSFORMS,
	T_ZSTD,
	G_SIZE,
	G_TENSOR,
	G_BYTES,
	G_PROPS,
	G_CHUNK,
	G_INDEX,
	G_INFO,
	V_STRIDED, /* torch.strided */
	W_DTYPE,   /* + dtype */
	NWORDS = W_DTYPE + SF_NDTYPES,
};
_Static_assert(NWORDS <= 256, "a word is fetched with two bytes");

/* Who uses a word. */
enum { TENSORS = 1, OBJECTS = 2, ALL = TENSORS | OBJECTS, ZSTD = 4 };

static const struct {
	const char *text; /* NULL: the caller's options say it */
	uint8_t of;
	enum word module; /* of a global */
} words[V_STRIDED] = {
	[M_METADATA] = { "torch.distributed.checkpoint.metadata", ALL, 0 },
	[M_TORCH] = { "torch", TENSORS, 0 },
	[M_INFO] = { NULL, ALL, 0 },
	[T_PROPERTIES] = { "properties", TENSORS, 0 },
	[T_SIZE] = { "size", TENSORS, 0 },
	[T_CHUNKS] = { "chunks", TENSORS, 0 },
	[T_OFFSETS] = { "offsets", TENSORS, 0 },
	[T_SIZES] = { "sizes", TENSORS, 0 },
	[T_FQN] = { "fqn", ALL, 0 },
	[T_INDEX] = { "index", ALL, 0 },
	[T_OFFSET] = { "offset", ALL, 0 },
	[T_PATH] = { "relative_path", ALL, 0 },
	[T_LENGTH] = { "length", ALL, 0 },
	[T_TRANSFORMS] = { "transform_descriptors", ZSTD, 0 },
	[T_ZSTD] = { NULL, ZSTD, 0 },
	[G_SIZE] = { "Size", TENSORS, M_TORCH },
	[G_TENSOR] = { "TensorStorageMetadata", TENSORS, M_METADATA },
	[G_BYTES] = { "BytesStorageMetadata", OBJECTS, M_METADATA },
	[G_PROPS] = { "TensorProperties", TENSORS, M_METADATA },
	[G_CHUNK] = { "ChunkStorageMetadata", TENSORS, M_METADATA },
	[G_INDEX] = { "MetadataIndex", ALL, M_METADATA },
	[G_INFO] = { "_StorageInfo", ALL, M_INFO },
};

struct step {
	const char *at;
	size_t len;
};
SF_VEC(steps, struct step);

struct meta {
	struct dcp_put o;
	const struct sf_global_plan *g;
	const struct sf_dcp_meta_options *opt;
	uint8_t memo[NWORDS];
	uint32_t key0;      /* the memo number of the first key */
	struct sf_map map;  /* text of a path's step -> steps */
	struct steps steps; /* memoised, from number step0 on */
	uint32_t step0;
	uint64_t *slot0; /* of each rank: the slot of its first file */
	uint32_t *slot;  /* memo number of a file's name, 0: not named yet */
};

/* ---- pieces ---- */

static uint8_t *get(const struct meta *m, uint8_t *p, enum word w)
{
	p[0] = 'h';
	p[1] = m->memo[w];
	return p + 2;
}

/* An instance without arguments. */
static uint8_t *instance(const struct meta *m, uint8_t *p, enum word class)
{
	p = get(m, p, class);
	p[0] = ')';
	p[1] = 0x81;
	return p + 2;
}

/* The same, and what opens the dict of its attributes; shut() ends them. */
static uint8_t *object(const struct meta *m, uint8_t *p, enum word class)
{
	p = instance(m, p, class);
	p[0] = '}';
	p[1] = '(';
	return p + 2;
}

static uint8_t *shut(uint8_t *p)
{
	p[0] = 'u';
	p[1] = 'b';
	return p + 2;
}

static uint8_t *size(const struct meta *m, uint8_t *p, const uint64_t *dim, unsigned ndim)
{
	p = get(m, p, G_SIZE);
	p = dcp_put_dims(p, dim, ndim);
	p[0] = 0x85;
	p[1] = 'R';
	return p + 2;
}
#define SIZE_MAX_BYTES(ndim) (4 + DCP_DIMS_MAX(ndim))

static uint8_t *get_key(const struct meta *m, uint8_t *p, uint64_t key)
{
	return dcp_put_get(p, m->key0 + (uint32_t)key);
}

static void ops(struct meta *m, const char *ops, size_t n)
{
	uint8_t *p = dcp_put_room(&m->o, n);

	if (!p)
		return;
	memcpy(p, ops, n);
	dcp_put_done(&m->o, p + n);
}

/* The MARKs of a long list or dict: before the @i-th item, and behind the @n-th that was the last. */
static void before(struct meta *m, uint64_t i)
{
	if (i % BATCH == 0)
		ops(m, "(", 1);
}

static void behind(struct meta *m, uint64_t i, uint64_t n, const char *op)
{
	if ((i + 1) % BATCH == 0 || i + 1 == n)
		ops(m, op, 1);
}

static void text(struct meta *m, const char *s)
{
	dcp_put_name(&m->o, s, strlen(s), false);
}

/* ---- words ---- */

/* What is on the stack gets a number, and goes. */
static void keep(struct meta *m, enum word w)
{
	m->memo[w] = (uint8_t)m->o.nmemo++;
	ops(m, "\x94\x30", 2);
}

static void put_word(struct meta *m, enum word w, const char *s)
{
	text(m, s);
	keep(m, w);
}

static void put_global(struct meta *m, enum word w, enum word module, const char *name)
{
	uint8_t *p = dcp_put_room(&m->o, 2);

	if (p)
		dcp_put_done(&m->o, get(m, p, module));
	text(m, name);
	ops(m, "\x93", 1);
	keep(m, w);
}

static void put_strided(struct meta *m)
{
	text(m, "torch.serialization");
	text(m, "_get_layout");
	ops(m, "\x93", 1);
	text(m, "torch.strided");
	ops(m, "\x85R", 2);
	keep(m, V_STRIDED);
}

/* Those that something uses. */
static void put_words(struct meta *m)
{
	const struct sf_global_plan *g = m->g;
	bool used[SF_NDTYPES] = { false };
	unsigned of = m->opt->zstd ? ZSTD : 0;

	for (uint64_t i = 0; i < g->nkeys; i++) {
		bool tensor = g->key[i].kind == SF_SAVE_TENSOR;
		of |= tensor ? TENSORS : OBJECTS;
		if (tensor)
			used[g->key[i].dtype] = true;
	}
	for (enum word w = 0; w < V_STRIDED; w++) {
		if (!(words[w].of & of))
			continue;
		if (w >= G_SIZE)
			put_global(m, w, words[w].module, words[w].text);
		else
			put_word(m, w,
			         w == M_INFO   ? m->opt->storage_info_module
			         : w == T_ZSTD ? m->opt->zstd
			                       : words[w].text);
	}
	if (of & TENSORS)
		put_strided(m);
	for (unsigned d = SF_DTYPE_NONE + 1; d < SF_NDTYPES; d++)
		if (used[d])
			put_global(m, W_DTYPE + d, M_TORCH, sf_dtype_info(d)->torch);
}

/* ---- state_dict_metadata ---- */

static void put_chunks(struct meta *m, const struct sf_global_key *k)
{
	const size_t room = 32 + 2 * SIZE_MAX_BYTES(k->ndim);
	const uint64_t *box = m->g->coords + k->coord;

	for (uint64_t i = 0; i < k->nchunks; i++, box += 2 * k->ndim) {
		before(m, i);
		uint8_t *p = dcp_put_room(&m->o, room);
		if (!p)
			return;
		p = object(m, p, G_CHUNK);
		p = get(m, p, T_OFFSETS);
		p = size(m, p, box, k->ndim);
		p = get(m, p, T_SIZES);
		p = size(m, p, box + k->ndim, k->ndim);
		p = shut(p);
		dcp_put_done(&m->o, p);
		behind(m, i, k->nchunks, "e");
	}
}

/*
 * TensorProperties is called: TensorProperties(dtype, layout, requires_grad). torch itself pickles its
 * state, in which stands an enum; that, and the class, moved in 2.3, and a class takes no other's enum.
 * Called, the name that 2.0 to 2.2 import the class under gives each version its own.
 */
static void put_tensor(struct meta *m, const struct sf_global_key *k)
{
	uint8_t *p = dcp_put_room(&m->o, 64 + SIZE_MAX_BYTES(k->ndim));

	if (!p)
		return;
	p = object(m, p, G_TENSOR);
	p = get(m, p, T_PROPERTIES);
	p = get(m, p, G_PROPS);
	p = get(m, p, W_DTYPE + k->dtype);
	p = get(m, p, V_STRIDED);
	p = dcp_op(p, k->requires_grad ? 0x88 : 0x89);
	p = dcp_op(p, 0x87);
	p = dcp_op(p, 'R');
	p = get(m, p, T_SIZE);
	p = size(m, p, k->shape, k->ndim);
	p = get(m, p, T_CHUNKS);
	p = dcp_op(p, ']');
	dcp_put_done(&m->o, p);
	put_chunks(m, k);
	ops(m, "ub", 2);
}

static void put_state(struct meta *m)
{
	const struct sf_global_plan *g = m->g;

	text(m, "state_dict_metadata");
	ops(m, "}", 1);
	m->key0 = m->o.nmemo;
	for (uint64_t i = 0; i < g->nkeys && m->o.failed == 0; i++) {
		const struct sf_global_key *k = &g->key[i];
		before(m, i);
		dcp_put_name(&m->o, k->key, k->key_len, true);
		if (k->kind == SF_SAVE_TENSOR) {
			put_tensor(m, k);
		} else {
			uint8_t *p = dcp_put_room(&m->o, 4);
			if (p)
				dcp_put_done(&m->o, instance(m, p, G_BYTES));
		}
		behind(m, i, g->nkeys, "u");
	}
}

/* ---- planner_data ---- */

static int same_step(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct step *s = &((const struct meta *)arg)->steps.at[value];

	return s->len == len && memcmp(s->at, key, len) == 0;
}

/* Fetched where it was written before; shorter than a fetch, it is written again. */
static void put_step(struct meta *m, const char *s)
{
	const struct step step = { s, strlen(s) };
	int failed = 0;
	uint32_t there = SF_MAP_NONE;
	uint8_t *p;

	if (step.len <= 3) {
		dcp_put_name(&m->o, s, step.len, false);
		return;
	}
	if (steps_reserve(&m->steps, m->steps.n + 1) < 0)
		failed = -ENOMEM;
	else
		there = sf_map_add(&m->map, s, step.len, (uint32_t)m->steps.n, same_step, m,
		                   &failed);
	if (failed && m->o.failed == 0)
		m->o.failed = sf_fail(m->o.err, -ENOMEM, "no memory for %zu names in .metadata",
		                      m->steps.n + 1);
	if (m->o.failed < 0)
		return;
	if (there == SF_MAP_NONE) {
		m->steps.at[m->steps.n++] = step;
		dcp_put_name(&m->o, s, step.len, true);
		return;
	}
	p = dcp_put_room(&m->o, 5);
	if (p)
		dcp_put_done(&m->o, dcp_put_get(p, m->step0 + there));
}

static void put_path(struct meta *m, const struct sf_global_key *k)
{
	static const char op[][2] = { ")", "\x85", "\x86", "\x87" };
	uint8_t *p;

	if (k->npath > 3)
		ops(m, "(", 1);
	for (uint32_t i = 0; i < k->npath; i++) {
		if (k->path[i].name) {
			put_step(m, k->path[i].name);
			continue;
		}
		p = dcp_put_room(&m->o, DCP_INT_MAX);
		if (p)
			dcp_put_done(&m->o, dcp_put_int(p, k->path[i].index));
	}
	ops(m, k->npath > 3 ? "t" : op[k->npath], 1);
}

static void put_planner(struct meta *m)
{
	const struct sf_global_plan *g = m->g;

	text(m, "planner_data");
	ops(m, "}", 1);
	m->step0 = m->o.nmemo;
	for (uint64_t i = 0; i < g->nkeys && m->o.failed == 0; i++) {
		before(m, i);
		uint8_t *p = dcp_put_room(&m->o, 11);
		if (!p)
			return;
		p = get_key(m, p, i);
		if (g->key[i].npath == 0)
			p = dcp_op(get_key(m, p, i), 0x85);
		dcp_put_done(&m->o, p);
		if (g->key[i].npath > 0)
			put_path(m, &g->key[i]);
		behind(m, i, g->nkeys, "u");
	}
}

/* ---- storage_data ---- */

/* A slot for each file that a rank has: what its name's memo number is kept in. */
static int make_slots(struct meta *m)
{
	const struct sf_global_plan *g = m->g;
	uint64_t n = 0;

	m->slot0 = calloc((size_t)g->nranks + 1, sizeof(*m->slot0));
	if (!m->slot0)
		return -ENOMEM;
	for (uint64_t c = 0; c < g->nchunks; c++)
		m->slot0[g->rank[c]] = SF_MAX(m->slot0[g->rank[c]], (uint64_t)g->file[c] + 1);
	for (uint32_t r = 0; r <= g->nranks; r++) {
		uint64_t files = m->slot0[r];
		m->slot0[r] = n;
		n += files;
	}
	m->slot = calloc(SF_MAX(n, 1), sizeof(*m->slot));
	return m->slot ? 0 : -ENOMEM;
}

static uint8_t *file_name(struct meta *m, uint8_t *p, uint64_t c)
{
	const struct sf_global_plan *g = m->g;
	uint32_t *slot = &m->slot[m->slot0[g->rank[c]] + g->file[c]];
	char name[SF_SHARD_NAME_MAX];

	if (*slot)
		return dcp_put_get(p, *slot);
	sf_shard_name(name, g->rank[c], g->file[c], m->opt->tag ? m->opt->tag : "");
	*slot = m->o.nmemo++;
	return dcp_op(dcp_put_text(p, name, strlen(name)), 0x94);
}

static uint8_t *put_index(struct meta *m, uint8_t *p, uint64_t key, uint64_t i)
{
	const struct sf_global_key *k = &m->g->key[key];

	p = object(m, p, G_INDEX);
	p = get(m, p, T_FQN);
	p = get_key(m, p, key);
	p = get(m, p, T_INDEX);
	if (k->kind == SF_SAVE_TENSOR) {
		p = dcp_put_int(p, i);
		p = get(m, p, T_OFFSET);
		p = size(m, p, m->g->coords + k->coord + i * 2 * k->ndim, k->ndim);
	} else { /* without an offset, which is not the offset () */
		p = dcp_op(p, 'N');
	}
	return shut(p);
}

static uint8_t *put_info(struct meta *m, uint8_t *p, uint64_t c)
{
	p = object(m, p, G_INFO);
	p = get(m, p, T_PATH);
	p = file_name(m, p, c);
	p = get(m, p, T_OFFSET);
	p = dcp_put_int(p, m->g->off[c]);
	p = get(m, p, T_LENGTH);
	p = dcp_put_int(p, m->g->len[c]);
	if (m->opt->zstd) {
		p = dcp_op(get(m, p, T_TRANSFORMS), ']');
		p = dcp_op(get(m, p, T_ZSTD), 'a');
	}
	return shut(p);
}

static void put_storage(struct meta *m)
{
	const struct sf_global_plan *g = m->g;
	uint64_t n = 0;

	text(m, "storage_data");
	ops(m, "}", 1);
	for (uint64_t key = 0; key < g->nkeys; key++) {
		const struct sf_global_key *k = &g->key[key];
		for (uint64_t i = 0; i < k->nchunks; i++, n++) {
			before(m, n);
			uint8_t *p = dcp_put_room(&m->o, 180 + SIZE_MAX_BYTES(k->ndim));
			if (!p)
				return;
			p = put_index(m, p, key, i);
			p = put_info(m, p, k->first + i);
			dcp_put_done(&m->o, p);
			behind(m, n, g->nchunks, "u");
		}
	}
}

/* ---- all of it ---- */

static int put_all(struct meta *m)
{
	uint8_t *p;

	put_words(m);
	p = dcp_put_room(&m->o, 2);
	if (p)
		dcp_put_done(&m->o, get(m, p, M_METADATA));
	text(m, "Metadata");
	ops(m, "\x93)\x81}(", 5);
	put_state(m);
	put_planner(m);
	put_storage(m);
	text(m, "version");
	text(m, "1.0.0");
	ops(m, "ub", 2);
	return dcp_put_end(&m->o);
}

int sf_dcp_meta_write(const struct sf_global_plan *g, const struct sf_dcp_meta_options *o,
                      int (*sink)(void *arg, const void *at, size_t len, struct sf_error *err),
                      void *arg, struct sf_error *err)
{
	struct meta m = { .g = g, .opt = o };
	int r;

	/* memo numbers are 32 bits: words, keys, steps and files */
	if (g->nkeys > UINT32_MAX / 4 || g->nchunks > UINT32_MAX)
		return sf_fail(err, -E2BIG,
		               "%" PRIu64 " keys in %" PRIu64 " chunks: more than .metadata holds",
		               g->nkeys, g->nchunks);
	r = dcp_put_init(&m.o, sink, arg, err);
	if (r >= 0 && make_slots(&m) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for the names of %" PRIu32 " ranks' files",
		            g->nranks);
	if (r >= 0)
		r = put_all(&m);
	dcp_put_release(&m.o);
	sf_map_release(&m.map);
	steps_release(&m.steps);
	free(m.slot0);
	free(m.slot);
	return r;
}
