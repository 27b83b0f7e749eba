/*
 * Saves a checkpoint for the interop tests to load: each rank is a thread.
 *
 * tool_save TARGET RANKS SPEC [OPTION...]
 * SPEC is a file of lines, fields apart by tabs:
 *   tensor RANK KEY DTYPE SHAPE OFFSET EXTENT   numbers apart by commas, "-" for none; a KEY that begins with
 *                                               '/' is a path: steps apart by '/', "#3" an index
 *   flat RANK KEY DTYPE SHAPE START STOP
 *   json RANK KEY TEXT
 *   file RANK NAME TEXT
 * OPTION: format=WORD metadata=JSON files=N replace balanced manifest async abort=RANK absent=RANK timeout=MS
 *         log plan repeat=N (saves so often, into TARGET0, TARGET1 …, with one keep; '@' in a json is 10^i) staging=BYTES zstd=LEVEL
 *
 * Byte p of a tensor's dense bytes is (p * 131 + sum of its key's bytes) % 256. Each rank's outcome is a line.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse/dtype.h"
#include "shardfuse_save.h"

#define FIELDS 7
#define RANKS_MAX 64

static struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
static struct shardfuse_save_keep *keep[RANKS_MAX];
static const char *target, *spec;
static uint32_t ranks;
static int async, abort_rank = -1, absent_rank = -1, plan, repeat;
static pthread_mutex_t print = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what)
{
	fprintf(stderr, "tool_save: %s\n", what);
	exit(2);
}

static unsigned numbers(char *text, uint64_t *ret)
{
	unsigned n = 0;

	if (strcmp(text, "-") == 0)
		return 0;
	for (char *at = strtok(text, ","); at; at = strtok(NULL, ","))
		ret[n++] = strtoull(at, NULL, 10);
	return n;
}

static unsigned steps(char *key, struct shardfuse_save_step *ret)
{
	unsigned n = 0;

	for (char *at = strtok(key + 1, "/"); at; at = strtok(NULL, "/"))
		ret[n++] = *at == '#' ? (struct shardfuse_save_step){ NULL,
			                                              strtoull(at + 1, NULL, 10) }
		                      : (struct shardfuse_save_step){ at, 0 };
	return n;
}

/* The bytes of elements [at, at + n) of the dense tensor. */
static void fill(uint8_t *to, uint64_t at, uint64_t n, unsigned width, unsigned seed)
{
	for (uint64_t i = 0; i < n * width; i++)
		to[i] = (uint8_t)((at * width + i) * 131 + seed);
}

static uint8_t *box_bytes(const struct shardfuse_save_tensor *t, unsigned width, unsigned seed)
{
	uint64_t n = 1, index[SHARDFUSE_DIMS_MAX] = { 0 };
	uint8_t *p;

	for (unsigned d = 0; d < t->ndim; d++)
		n *= t->extent[d];
	p = malloc(n * width + 1);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = 0;
		for (unsigned d = 0; d < t->ndim; d++)
			at = at * t->shape[d] + t->offset[d] + index[d];
		fill(p + i * width, at, 1, width, seed);
		for (unsigned d = t->ndim; d-- > 0 && ++index[d] == t->extent[d];)
			index[d] = 0;
	}
	return p;
}

struct keeping { /* what tensors point to, until the save is freed */
	void *at[4096];
	size_t n;
};

static int add_tensor(struct shardfuse_save *s, char **f, int flat, struct keeping *k,
                      struct shardfuse_error *err)
{
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_save_step path[16];
	uint64_t shape[64], offset[64] = { 0 }, extent[64];
	unsigned seed = 0, width;

	if (k->n == sizeof(k->at) / sizeof(*k->at))
		die("too many tensors");
	if (f[2][0] == '/') {
		t.npath = steps(f[2], path);
		t.path = path;
		for (size_t i = 0; i < t.npath; i++) {
			char number[24];
			const char *name = path[i].name;
			snprintf(number, sizeof(number), "%llu", (unsigned long long)path[i].index);
			for (const char *c = name ? name : number; *c; c++)
				seed += (uint8_t)*c;
			seed += i ? '.' : 0;
		}
	} else {
		t.key = f[2];
		for (const char *c = f[2]; *c; c++)
			seed += (uint8_t)*c;
	}
	t.dtype = f[3];
	width = 4;
	for (int d = 1; d < SF_NDTYPES; d++)
		if (strcmp(sf_dtype_info((enum sf_dtype)d)->torch, f[3]) == 0)
			width = sf_dtype_info((enum sf_dtype)d)->bytes;
	t.ndim = numbers(f[4], shape);
	t.shape = shape;
	if (flat) {
		uint64_t start = strtoull(f[5], NULL, 10), stop = strtoull(f[6], NULL, 10);
		uint8_t *p = malloc((stop - start) * width + 1);
		fill(p, start, stop - start, width, seed);
		t.at = k->at[k->n++] = p;
		return shardfuse_save_add_flat_range(s, &t, start, stop, err);
	}
	memcpy(extent, shape, sizeof(extent));
	numbers(f[5], offset);
	numbers(f[6], extent);
	t.offset = offset;
	t.extent = extent;
	t.at = k->at[k->n++] = box_bytes(&t, width, seed);
	return shardfuse_save_add_tensor(s, &t, err);
}

static int add_line(struct shardfuse_save *s, char **f, int step, struct keeping *k,
                    struct shardfuse_error *err)
{
	if (strcmp(f[0], "tensor") == 0)
		return add_tensor(s, f, 0, k, err);
	if (strcmp(f[0], "flat") == 0)
		return add_tensor(s, f, 1, k, err);
	if (strcmp(f[0], "json") == 0) {
		struct shardfuse_save_object o = SHARDFUSE_INIT(o);
		struct shardfuse_save_step path[16];
		if (f[2][0] == '/') {
			o.npath = steps(f[2], path);
			o.path = path;
		} else {
			o.key = f[2];
		}
		o.json = f[3];
		if (step && strchr(f[3], '@')) { /* a number that gets longer */
			char text[4096];
			snprintf(text, sizeof(text), "%.*s1%0*d%s", (int)strcspn(f[3], "@"), f[3],
			         step, 0, strchr(f[3], '@') + 1);
			o.json = text;
			return shardfuse_save_add_object(s, &o, err);
		}
		return shardfuse_save_add_object(s, &o, err);
	}
	if (strcmp(f[0], "file") == 0)
		return shardfuse_save_add_file(s, f[2], f[3], strlen(f[3]), err);
	die("spec: unknown line");
	return 0;
}

/* strtok is not for threads */
static pthread_mutex_t parsing = PTHREAD_MUTEX_INITIALIZER;

static int add_all(struct shardfuse_save *s, uint32_t rank, int step, struct keeping *k,
                   struct shardfuse_error *err)
{
	FILE *f = fopen(spec, "r");
	char *line = NULL;
	size_t cap = 0;
	int r = 0;

	if (!f)
		die("cannot open the spec");
	pthread_mutex_lock(&parsing);
	while (r >= 0 && getline(&line, &cap, f) > 0) {
		char *field[FIELDS] = { 0 }, *at = line;
		line[strcspn(line, "\n")] = '\0';
		for (unsigned i = 0; i < FIELDS && at; i++)
			field[i] = strsep(&at, "\t");
		if (field[1] && (uint32_t)strtoul(field[1], NULL, 10) == rank)
			r = add_line(s, field, step, k, err);
	}
	pthread_mutex_unlock(&parsing);
	free(line);
	fclose(f);
	return r;
}

static int commit_async(struct shardfuse_save *s, struct keeping *k, struct shardfuse_error *err)
{
	struct shardfuse_save_request *req;
	int r = shardfuse_save_commit_async(s, &req, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < k->n; i++) /* the memory is ours again: other bytes are in it */
		*(uint8_t *)k->at[i] ^= 0xff;
	return shardfuse_save_wait(req, err);
}

static int save(const char *to, int step, const struct shardfuse_comm *comm,
                struct shardfuse_error *err)
{
	struct shardfuse_save_options o = opt;
	struct shardfuse_save *s;
	struct keeping k = { 0 };
	char *json;
	int r;

	o.keep = keep[comm->rank];
	r = shardfuse_save_begin(to, &o, comm, &s, err);
	if (r < 0)
		return r;
	r = add_all(s, comm->rank, step, &k, err);
	if (r < 0 || (int)comm->rank == abort_rank) {
		struct shardfuse_error e;
		shardfuse_save_abort(s, r < 0 ? err->msg : "as asked", &e);
	} else if (plan) {
		r = shardfuse_save_plan(s, &json, err);
		if (r >= 0 && comm->rank == 0)
			puts(json);
		shardfuse_free(r >= 0 ? json : NULL);
	} else {
		r = async ? commit_async(s, &k, err) : shardfuse_save_commit(s, err);
	}
	shardfuse_save_free(s);
	for (size_t i = 0; i < k.n; i++)
		free(k.at[i]);
	return r;
}

static void *run_rank(void *arg)
{
	struct shardfuse_comm *comm = arg;
	struct shardfuse_error err = { "" };
	int r = 0;

	if ((int)comm->rank == absent_rank)
		return NULL;
	if (!repeat)
		r = save(target, 0, comm, &err);
	for (int i = 0; i < repeat && r >= 0; i++) {
		char to[4096];
		snprintf(to, sizeof(to), "%s%d", target, i);
		r = save(to, i + 1, comm, &err);
	}
	pthread_mutex_lock(&print);
	if (!plan || r < 0)
		printf("rank %u: %d %s\n", comm->rank, r, r < 0 ? err.msg : "ok");
	pthread_mutex_unlock(&print);
	return r < 0 ? arg : NULL;
}

static void log_line(void *arg, const char *line)
{
	(void)arg;
	pthread_mutex_lock(&print);
	printf("log %s\n", line);
	pthread_mutex_unlock(&print);
}

static const char *value(const char *arg, const char *name)
{
	size_t n = strlen(name);

	return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static void option(const char *a)
{
	const char *v;

	if ((v = value(a, "format")))
		opt.format = v;
	else if ((v = value(a, "metadata")))
		opt.format_metadata = v;
	else if ((v = value(a, "files")))
		opt.files_per_rank = (unsigned)atoi(v);
	else if ((v = value(a, "timeout")))
		opt.timeout_ms = (unsigned)atoi(v);
	else if ((v = value(a, "staging")))
		opt.staging = strtoull(v, NULL, 10);
	else if ((v = value(a, "zstd")))
		opt.zstd = atoi(v);
	else if ((v = value(a, "abort")))
		abort_rank = atoi(v);
	else if ((v = value(a, "absent")))
		absent_rank = atoi(v);
	else if ((v = value(a, "repeat")))
		repeat = atoi(v);
	else if (strcmp(a, "replace") == 0)
		opt.overwrite = SHARDFUSE_REPLACE;
	else if (strcmp(a, "balanced") == 0)
		opt.dedup = SHARDFUSE_DEDUP_BALANCED;
	else if (strcmp(a, "manifest") == 0)
		opt.manifest = 1;
	else if (strcmp(a, "async") == 0)
		async = 1;
	else if (strcmp(a, "plan") == 0)
		plan = 1;
	else if (strcmp(a, "log") == 0)
		opt.log = log_line;
	else
		die(a);
}

int main(int argc, char **argv)
{
	struct shardfuse_comm comm[RANKS_MAX];
	pthread_t thread[RANKS_MAX];
	struct shardfuse_error err;
	int failed = 0;

	if (argc < 4 || (ranks = (uint32_t)atoi(argv[2])) < 1 || ranks > RANKS_MAX)
		die("usage: tool_save TARGET RANKS SPEC [OPTION...]");
	target = argv[1];
	spec = argv[3];
	for (int i = 4; i < argc; i++)
		option(argv[i]);
	if (shardfuse_comm_threads(ranks, comm, &err) < 0)
		die(err.msg);
	for (uint32_t i = 0; i < ranks; i++) {
		if (repeat && shardfuse_save_keep_new(&keep[i], &err) < 0)
			die(err.msg);
		pthread_create(&thread[i], NULL, run_rank, &comm[i]);
	}
	for (uint32_t i = 0; i < ranks; i++) {
		void *r;
		pthread_join(thread[i], &r);
		failed |= r != NULL;
	}
	for (uint32_t i = 0; i < ranks; i++) {
		shardfuse_save_keep_free(keep[i]);
		shardfuse_comm_free(&comm[i]);
	}
	return failed;
}
