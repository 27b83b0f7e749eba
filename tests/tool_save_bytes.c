/*
 * What a save puts into its files, for the interop test to load:
 *   tool_save_bytes tensors DIR    DIR/DTYPE.N.pt, N of each of the shapes below; element bytes count up
 *   tool_save_bytes objects DIR    DIR/NAME.pt, a value of each builder
 *   tool_save_bytes json DIR < LINES    DIR/N.pt of the Nth line's JSON
 *   tool_save_bytes check FILE…    is each an archive that may be added? A line each: ok, or why not
 *   tool_save_bytes metadata FILE MODULE ZSTD < PLAN    a .metadata; ZSTD "-": none
 *
 * A plan is words: NRANKS NKEYS, then for each key
 *   NAME tensor DTYPE GRAD NPATH STEP… NDIM DIM… NCHUNKS, and of each chunk RANK FILE OFF LEN ORIGIN… EXTENT…
 *   NAME object NPATH STEP… RANK FILE OFF LEN
 * A name is x and hex digits; a step is such a name, or a number.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "base/vec.h"
#include "save/dcp_meta_write.h"
#include "save/save_item_bytes.h"
#include "save/save_values.h"

static void die(const char *why)
{
	fprintf(stderr, "tool_save_bytes: %s\n", why);
	exit(2);
}

static FILE *create(const char *path)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		die(path);
	return f;
}

static void put(FILE *f, const void *at, size_t len)
{
	if (fwrite(at, 1, len, f) != len)
		die("cannot write");
}

/* ---- tensors ---- */

#define SHAPES 5
static const struct {
	unsigned ndim;
	uint64_t extent[4];
} shapes[SHAPES] = {
	{ 2, { 2, 3 } }, { 0, { 0 } }, { 2, { 0, 4 } }, { 1, { 5 } }, { 4, { 2, 1, 3, 2 } },
};

static void tensor(const char *dir, enum sf_dtype dtype, unsigned n)
{
	const struct sf_dtype_info *info = sf_dtype_info(dtype);
	struct sf_save_tensor_item t = { .dtype = dtype,
		                         .ndim = shapes[n].ndim,
		                         .extent = shapes[n].extent,
		                         .bytes = info->bytes };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf head = { 0 }, tail = { 0 };
	uint8_t payload[12 * 16];
	char path[4096];

	for (unsigned k = 0; k < t.ndim; k++)
		t.bytes *= t.extent[k];
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)i;
	if (dtype == SF_BOOL)
		for (size_t i = 0; i < sizeof(payload); i++)
			payload[i] &= 1;
	if (sf_save_tensor_item_plan(&t, &err) < 0)
		die(err.msg);
	uint32_t crc = sf_crc32(0, payload, t.bytes);
	if (sf_save_tensor_item_head(&t, crc, &head) < 0 ||
	    sf_save_tensor_item_tail(&t, crc, &tail) < 0 || head.len != t.head_len ||
	    tail.len != t.tail_len)
		die("no head, or no tail");
	snprintf(path, sizeof(path), "%s/%s.%u.pt", dir, info->torch, n);
	FILE *f = create(path);
	put(f, head.at, head.len);
	put(f, payload, t.bytes);
	put(f, tail.at, tail.len);
	if (fclose(f) != 0)
		die("cannot write");
	sf_buf_release(&head);
	sf_buf_release(&tail);
}

static void tensors(const char *dir)
{
	for (int d = SF_DTYPE_NONE + 1; d < SF_NDTYPES; d++)
		for (unsigned n = 0; n < SHAPES; n++)
			if (d < SF_QINT8 || d > SF_QUINT2X4)
				tensor(dir, (enum sf_dtype)d, n);
}

/* ---- objects ---- */

static void object(const char *dir, const char *name, const struct shardfuse_value *v)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf out = { 0 };
	char path[4096];

	if (!v || sf_save_object_item(sf_save_value_tree(v), &out, &err) < 0 ||
	    sf_save_object_check(out.at, out.len, &err) < 0)
		die(v ? err.msg : name);
	snprintf(path, sizeof(path), "%s/%s.pt", dir, name);
	FILE *f = create(path);
	put(f, out.at, out.len);
	if (fclose(f) != 0)
		die("cannot write");
	sf_buf_release(&out);
}

static struct shardfuse_value *text(struct shardfuse_values *vs, const char *s)
{
	return shardfuse_value_str(vs, s, strlen(s));
}

/* All kinds inside of each other. */
static struct shardfuse_value *nested(struct shardfuse_values *vs)
{
	struct shardfuse_value *dict = shardfuse_value_dict(vs), *list = shardfuse_value_list(vs),
			       *tuple = shardfuse_value_tuple(vs), *key = shardfuse_value_tuple(vs);

	for (int i = 0; i < 5; i++)
		shardfuse_value_append(tuple, shardfuse_value_int(vs, i));
	shardfuse_value_append(list, tuple);
	shardfuse_value_append(list, shardfuse_value_dtype(vs, "bfloat16"));
	shardfuse_value_append(list, text(vs, "cpu"));
	shardfuse_value_append(list, text(vs, "cpu"));
	shardfuse_value_append(list, text(vs, "storage"));
	shardfuse_value_append(key, shardfuse_value_int(vs, 1));
	shardfuse_value_append(key, text(vs, "b"));
	shardfuse_value_set(dict, text(vs, "list"), list);
	shardfuse_value_set(dict, shardfuse_value_int(vs, 7), shardfuse_value_none(vs));
	shardfuse_value_set(dict, shardfuse_value_float(vs, 0.5),
	                    shardfuse_value_bytes(vs, "\0\xff", 2));
	shardfuse_value_set(dict, key, shardfuse_value_dict(vs));
	return dict;
}

static struct shardfuse_value *large(struct shardfuse_values *vs, struct shardfuse_value *list)
{
	for (int i = 0; i < 2500; i++)
		shardfuse_value_append(list, shardfuse_value_int(vs, i));
	return list;
}

static void objects(const char *dir)
{
	static const uint64_t dim[4] = { 2, 0, 70000, UINT64_C(1) << 40 };
	struct shardfuse_values *vs = shardfuse_values_new();

	object(dir, "none", shardfuse_value_none(vs));
	object(dir, "true", shardfuse_value_bool(vs, 1));
	object(dir, "false", shardfuse_value_bool(vs, 0));
	for (int shift = 0; shift < 64; shift++) {
		char name[40];
		snprintf(name, sizeof(name), "int%d", shift);
		object(dir, name, shardfuse_value_int(vs, (int64_t)(UINT64_C(1) << shift)));
		snprintf(name, sizeof(name), "less%d", shift);
		object(dir, name, shardfuse_value_int(vs, (int64_t)((UINT64_C(1) << shift) - 1)));
		snprintf(name, sizeof(name), "minus%d", shift);
		object(dir, name, shardfuse_value_int(vs, (int64_t)(0 - (UINT64_C(1) << shift))));
	}
	object(dir, "float", shardfuse_value_float(vs, -0.1));
	object(dir, "inf", shardfuse_value_float(vs, 1.0 / 0.0));
	object(dir, "str", text(vs, "a\xc3\xa4\xf0\x9f\x98\x80"));
	object(dir, "empty", text(vs, ""));
	object(dir, "nul", shardfuse_value_str(vs, "a\0b", 3));
	object(dir, "bytes", shardfuse_value_bytes(vs, "\0\x7f\x80\xff", 4));
	object(dir, "list", large(vs, shardfuse_value_list(vs)));
	object(dir, "tuple", large(vs, shardfuse_value_tuple(vs)));
	object(dir, "nolist", shardfuse_value_list(vs));
	object(dir, "notuple", shardfuse_value_tuple(vs));
	object(dir, "nodict", shardfuse_value_dict(vs));
	object(dir, "nested", nested(vs));
	object(dir, "size", shardfuse_value_size(vs, dim, 4));
	object(dir, "nosize", shardfuse_value_size(vs, NULL, 0));
	for (int d = SF_DTYPE_NONE + 1; d < SF_NDTYPES; d++) {
		char name[64];
		const char *torch = sf_dtype_info((enum sf_dtype)d)->torch;
		snprintf(name, sizeof(name), "dtype-%s", torch);
		object(dir, name, shardfuse_value_dtype(vs, torch));
	}
	shardfuse_values_free(vs);
}

static void json(const char *dir)
{
	struct shardfuse_error err;
	char *line = NULL, name[40];
	size_t cap = 0;
	ssize_t len;

	for (unsigned n = 0; (len = getline(&line, &cap, stdin)) >= 0; n++) {
		struct shardfuse_values *vs = shardfuse_values_new();
		struct shardfuse_value *v = shardfuse_value_json(vs, line, (size_t)len, &err);
		if (!v)
			die(err.msg);
		snprintf(name, sizeof(name), "%u", n);
		object(dir, name, v);
		shardfuse_values_free(vs);
	}
	free(line);
}

static void checks(char **path)
{
	static char at[1 << 20];

	for (; *path; path++) {
		struct sf_error err = SF_ERROR_INIT;
		FILE *f = fopen(*path, "rb");
		if (!f)
			die(*path);
		size_t len = fread(at, 1, sizeof(at), f);
		fclose(f);
		puts(sf_save_object_check(at, len, &err) < 0 ? err.msg : "ok");
	}
}

/* ---- metadata ---- */

SF_VEC(u64s, uint64_t);
SF_VEC(u32s, uint32_t);

static struct {
	struct sf_arena arena;
	struct u64s coords, off, len;
	struct u32s rank, file;
} plan;

static const char *word(void)
{
	static char text[1 << 17];

	if (scanf("%131071s", text) != 1)
		die("the plan ends early");
	return text;
}

static uint64_t number(void)
{
	return strtoull(word(), NULL, 10);
}

static void *room(size_t len)
{
	void *p = sf_arena_alloc(&plan.arena, len + 1);

	if (!p)
		die("no memory");
	return p;
}

static const char *unhex(const char *s, uint32_t *ret_len)
{
	size_t n = strlen(s) / 2;
	char *p = room(n);

	for (size_t i = 0; i < n; i++) {
		const char two[3] = { s[1 + 2 * i], s[2 + 2 * i], 0 };
		p[i] = (char)strtoul(two, NULL, 16);
	}
	p[n] = '\0';
	*ret_len = (uint32_t)n;
	return p;
}

static const uint64_t *numbers(unsigned n)
{
	uint64_t *p = room(n * sizeof(*p));

	for (unsigned i = 0; i < n; i++)
		p[i] = number();
	return p;
}

static void path(struct sf_global_key *k)
{
	struct shardfuse_save_step *step;
	uint32_t len;

	k->npath = (uint32_t)number();
	k->path = step = room(k->npath * sizeof(*step));
	for (uint32_t i = 0; i < k->npath; i++) {
		const char *w = word();
		step[i] = (struct shardfuse_save_step){ 0 };
		if (*w == 'x')
			step[i].name = unhex(w, &len);
		else
			step[i].index = strtoull(w, NULL, 10);
	}
}

static void chunk(unsigned ndim)
{
	bool full = u32s_push(&plan.rank, (uint32_t)number()) < 0 ||
	            u32s_push(&plan.file, (uint32_t)number()) < 0 ||
	            u64s_push(&plan.off, number()) < 0 || u64s_push(&plan.len, number()) < 0;

	for (unsigned k = 0; k < 2 * ndim && !full; k++)
		full = u64s_push(&plan.coords, number()) < 0;
	if (full)
		die("no memory");
}

static void key(struct sf_global_key *k)
{
	k->key = unhex(word(), &k->key_len);
	k->kind = strcmp(word(), "tensor") == 0 ? SF_SAVE_TENSOR : SF_SAVE_OBJECT;
	if (k->kind == SF_SAVE_TENSOR) {
		const char *dtype = word();
		k->dtype = (uint8_t)sf_dtype_by_torch(dtype, strlen(dtype));
		k->requires_grad = number() != 0;
	}
	path(k);
	k->first = plan.rank.n;
	k->nchunks = 1;
	if (k->kind == SF_SAVE_TENSOR) {
		k->ndim = (uint8_t)number();
		k->shape = numbers(k->ndim);
		k->nchunks = number();
		k->coord = plan.coords.n;
	}
	for (uint64_t i = 0; i < k->nchunks; i++)
		chunk(k->ndim);
}

static int to_file(void *arg, const void *at, size_t len, struct sf_error *err)
{
	(void)err;
	put(arg, at, len);
	return 0;
}

static void metadata(const char *name, const char *module, const char *zstd)
{
	const struct sf_dcp_meta_options opt = { .storage_info_module = module,
		                                 .zstd = strcmp(zstd, "-") != 0 ? zstd : NULL };
	struct sf_global_plan g = { .nranks = (uint32_t)number(), .nkeys = number() };
	struct sf_error err = SF_ERROR_INIT;

	g.key = calloc(g.nkeys + 1, sizeof(*g.key));
	if (!g.key)
		die("no memory");
	for (uint64_t i = 0; i < g.nkeys; i++)
		key(&g.key[i]);
	g.nchunks = plan.rank.n;
	g.coords = plan.coords.at;
	g.rank = plan.rank.at;
	g.file = plan.file.at;
	g.off = plan.off.at;
	g.len = plan.len.at;
	FILE *f = create(name);
	if (sf_dcp_meta_write(&g, &opt, to_file, f, &err) < 0)
		die(err.msg);
	if (fclose(f) != 0)
		die("cannot write");
	free(g.key);
	sf_arena_release(&plan.arena);
	u64s_release(&plan.coords);
	u64s_release(&plan.off);
	u64s_release(&plan.len);
	u32s_release(&plan.rank);
	u32s_release(&plan.file);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "tensors") == 0)
		tensors(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "objects") == 0)
		objects(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "json") == 0)
		json(argv[2]);
	else if (argc >= 3 && strcmp(argv[1], "check") == 0)
		checks(argv + 2);
	else if (argc == 5 && strcmp(argv[1], "metadata") == 0)
		metadata(argv[2], argv[3], argv[4]);
	else
		die("tensors DIR | objects DIR | json DIR < LINES | check FILE… | metadata FILE "
		    "MODULE ZSTD < PLAN");
	return 0;
}
