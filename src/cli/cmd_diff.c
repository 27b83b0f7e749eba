#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "tool/parallel.h"
#include "tool/progress.h"
#include "tool/value_diff.h"
#include "value/object.h"
#include "value/value_json.h"

enum { SAME = 0, DIFFER = 1, TROUBLE = 2, FAR_AT_ONCE = 16 };
#define JSON_MAX (UINT64_C(256) << 20) /* of an object's value */

struct diff_options {
	bool values, json;
};

static const struct sf_opt options[] = {
	{ "values", 0, SF_OPT_FLAG, offsetof(struct diff_options, values), NULL, NULL,
	  "compare what is in the tensors and objects, too: reads both" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct diff_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

/* A key of both. */
struct pair {
	uint32_t entry[2];
	bool kind, dtype, shape; /* differ: tensor and object; of two tensors */
	bool compared, value;    /* value differs */
	struct sf_value_diff by; /* of tensors, compared */
};

struct diff {
	const struct diff_options *o;
	struct sf_io *io;
	struct sf_session s[2];
	struct pair *pair;
	size_t n;
	uint32_t *only[2];
	uint32_t nonly[2];
	struct sf_progress progress;
	pthread_mutex_t objects; /* held while two are compared: a value may be large */
};

static const struct sf_entry *entry_at(const struct diff *d, int side, uint32_t entry)
{
	return &d->s[side].catalog->entry[entry];
}

static const struct sf_tensor *tensor_at(const struct diff *d, int side, uint32_t entry)
{
	const struct sf_entry *e = entry_at(d, side, entry);

	return e->tensor == SF_NONE ? NULL : &d->s[side].ckpt->tensor[e->tensor];
}

static bool differs(const struct pair *p)
{
	return p->kind || p->dtype || p->shape || p->value;
}

/* ---- what is there ---- */

static void look(struct diff *d, struct pair *p)
{
	const struct sf_tensor *a = tensor_at(d, 0, p->entry[0]), *b = tensor_at(d, 1, p->entry[1]);

	p->kind = !a != !b;
	if (!a || !b)
		return;
	p->dtype = a->dtype != b->dtype;
	p->shape =
		a->ndim != b->ndim || memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) != 0;
	if (!p->shape)
		atomic_fetch_add(&d->progress.total, a->bytes + b->bytes);
}

static int match(struct diff *d, struct sf_error *err)
{
	const struct sf_catalog *a = d->s[0].catalog, *b = d->s[1].catalog;

	d->pair = sf_alloc_array(SF_MAX(SF_MIN(a->n, b->n), 1u), sizeof(*d->pair));
	d->only[0] = sf_alloc_array(SF_MAX(a->n, 1u), sizeof(uint32_t));
	d->only[1] = sf_alloc_array(SF_MAX(b->n, 1u), sizeof(uint32_t));
	if (!d->pair || !d->only[0] || !d->only[1])
		return sf_fail(err, -ENOMEM, "%" PRIu32 " and %" PRIu32 " keys", a->n, b->n);
	for (uint32_t i = 0; i < a->n; i++) {
		uint32_t j = sf_catalog_find(b, a->entry[i].name, a->entry[i].len);
		if (j == SF_NONE) {
			d->only[0][d->nonly[0]++] = i;
		} else {
			d->pair[d->n] = (struct pair){ .entry = { i, j } };
			look(d, &d->pair[d->n++]);
		}
	}
	for (uint32_t i = 0; i < b->n; i++)
		if (sf_catalog_find(a, b->entry[i].name, b->entry[i].len) == SF_NONE)
			d->only[1][d->nonly[1]++] = i;
	return 0;
}

/* ---- what is in it ---- */

static void add_progress(void *arg, uint64_t bytes)
{
	sf_progress_add(arg, bytes);
}

static int to_json(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	(void)object;
	return sf_value_json(arg, v->root, err);
}

/* Objects are the same whose JSON is. One text is held at a time. */
static int digest(struct sf_session *s, uint32_t object, uint8_t ret[SF_SHA256_BYTES],
                  struct sf_error *err)
{
	struct sf_buf text = { .limit = JSON_MAX };
	int r = sf_objects_load(s->reader, &object, 1, to_json, &text, err);

	if (r >= 0 && sf_buf_check(&text) < 0)
		r = sf_fail(err, sf_buf_check(&text),
		            "a value of more than %" PRIu64 " bytes of JSON", JSON_MAX);
	if (r >= 0)
		r = sf_sha256(text.at, text.len, ret);
	sf_buf_release(&text);
	return r;
}

static int compare_objects(struct diff *d, struct pair *p, struct sf_error *err)
{
	uint8_t sum[2][SF_SHA256_BYTES];
	int r = 0;

	pthread_mutex_lock(&d->objects);
	for (int i = 0; i < 2 && r >= 0; i++)
		r = digest(&d->s[i], entry_at(d, i, p->entry[i])->object, sum[i], err);
	pthread_mutex_unlock(&d->objects);
	p->compared = r >= 0;
	p->value = r >= 0 && memcmp(sum[0], sum[1], SF_SHA256_BYTES) != 0;
	return r;
}

static int compare(void *arg, size_t i, struct sf_error *err)
{
	struct diff *d = arg;
	struct pair *p = &d->pair[i];
	const struct sf_entry *a = entry_at(d, 0, p->entry[0]), *b = entry_at(d, 1, p->entry[1]);
	int r = 0;

	if (p->kind || p->shape)
		return 0;
	if (a->tensor == SF_NONE) {
		r = compare_objects(d, p, err);
	} else {
		const struct sf_diff_side x = { d->s[0].reader, a->tensor },
					  y = { d->s[1].reader, b->tensor };
		r = sf_value_diff(&x, &y, add_progress, &d->progress, &p->by, err);
		p->compared = r >= 0;
		p->value = r >= 0 && p->by.differ;
		if (r == -EINVAL) /* two kinds of numbers, which the dtypes say */
			r = 0;
	}
	return r < 0 && !strstr(err->msg, a->name) ? sf_fail_ctx(err, r, "'%.300s'", a->name) : r;
}

/* ---- for people ---- */

static void put_kind(const struct diff *d, int side, uint32_t entry)
{
	const struct sf_tensor *t = tensor_at(d, side, entry);
	SF_CLEANUP(sf_buf_release) struct sf_buf shape = { 0 };

	if (!t) {
		printf("object");
		return;
	}
	sf_shape_text(&shape, t->shape, t->ndim);
	printf("%s %s", sf_dtype_info((enum sf_dtype)t->dtype)->torch, sf_buf_cstr(&shape));
}

/* Escaped wherever it goes: a name with a newline would be a line of ours. */
static void put_key(const struct sf_entry *e)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { 0 };

	sf_escape_text(&name, e->name, e->len);
	fputs(sf_buf_cstr(&name), stdout);
}

static void put_only(const struct diff *d, int side)
{
	for (uint32_t i = 0; i < d->nonly[side]; i++) {
		const struct sf_entry *e = entry_at(d, side, d->only[side][i]);
		printf("%s ", side ? "+" : "-");
		put_key(e);
		printf("  ");
		put_kind(d, side, d->only[side][i]);
		putchar('\n');
	}
}

static void put_pair(const struct diff *d, const struct pair *p)
{
	const struct sf_entry *e = entry_at(d, 0, p->entry[0]);
	const char *sep = "  ";

	printf("~ ");
	put_key(e);
	if (p->kind || p->dtype || p->shape) {
		printf("%s", sep);
		put_kind(d, 0, p->entry[0]);
		printf(" -> ");
		put_kind(d, 1, p->entry[1]);
		sep = ", ";
	}
	if (p->value && e->tensor == SF_NONE)
		printf("%sanother value", sep);
	else if (p->value)
		printf("%s%" PRIu64 " of %" PRIu64
		       " differ, by %.3g at most (relative %.3g), element %" PRIu64,
		       sep, p->by.differ, p->by.n, p->by.max_abs, p->by.max_rel, p->by.max_at);
	putchar('\n');
}

static size_t print_text(const struct diff *d)
{
	size_t changed = 0;

	put_only(d, 0);
	put_only(d, 1);
	for (size_t i = 0; i < d->n; i++)
		if (differs(&d->pair[i])) {
			put_pair(d, &d->pair[i]);
			changed++;
		}
	return changed;
}

/* ---- for programs ---- */

static void json_kind(const struct diff *d, int side, uint32_t entry)
{
	const struct sf_tensor *t = tensor_at(d, side, entry);

	printf("{\"type\": \"%s\"", t ? "tensor" : "object");
	if (t) {
		printf(", \"dtype\": \"%s\", \"shape\": [",
		       sf_dtype_info((enum sf_dtype)t->dtype)->torch);
		for (unsigned k = 0; k < t->ndim; k++)
			printf("%s%" PRIu64, k ? ", " : "", t->shape[k]);
		putchar(']');
	}
	putchar('}');
}

static void json_only(const struct diff *d, int side, const char *name)
{
	printf(",\n \"%s\": [", name);
	for (uint32_t i = 0; i < d->nonly[side]; i++) {
		const struct sf_entry *e = entry_at(d, side, d->only[side][i]);
		printf("%s\n  {\"key\": ", i ? "," : "");
		sf_put_json(stdout, e->name, e->len);
		printf(", \"is\": ");
		json_kind(d, side, d->only[side][i]);
		putchar('}');
	}
	putchar(']');
}

static void json_distance(const char *name, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.17g", v);
	printf(isfinite(v) ? ", \"%s\": %s" : ", \"%s\": {\"$float\": \"%s\"}", name, text);
}

static void json_pair(const struct diff *d, const struct pair *p)
{
	const struct sf_entry *e = entry_at(d, 0, p->entry[0]);

	printf("{\"key\": ");
	sf_put_json(stdout, e->name, e->len);
	printf(", \"a\": ");
	json_kind(d, 0, p->entry[0]);
	printf(", \"b\": ");
	json_kind(d, 1, p->entry[1]);
	if (p->compared && e->tensor != SF_NONE) {
		printf(", \"numbers\": %" PRIu64 ", \"differ\": %" PRIu64 ", \"max_at\": %" PRIu64,
		       p->by.n, p->by.differ, p->by.max_at);
		json_distance("max_abs", p->by.max_abs);
		json_distance("max_rel", p->by.max_rel);
	} else if (p->compared) {
		printf(", \"differ\": %s", p->value ? "true" : "false");
	}
	putchar('}');
}

static size_t print_json(const struct diff *d)
{
	size_t changed = 0;

	printf("{\"schema\": 1, \"values\": %s", d->o->values ? "true" : "false");
	json_only(d, 0, "only_a");
	json_only(d, 1, "only_b");
	printf(",\n \"changed\": [");
	for (size_t i = 0; i < d->n; i++)
		if (differs(&d->pair[i])) {
			printf("%s\n  ", changed++ ? "," : "");
			json_pair(d, &d->pair[i]);
		}
	printf("],\n \"same\": %zu}\n", d->n - changed);
	return changed;
}

/* ---- the verb ---- */

static int open_both(struct diff *d, const struct sf_common *common, char **source,
                     struct sf_error *err)
{
	struct sf_session_options o = common->session;
	int r;

	o.io = d->io;
	r = sf_session_open(&d->s[0], &o, source[0], err);
	if (r < 0)
		return r;
	r = sf_session_open(&d->s[1], &o, source[1], err);
	if (r < 0)
		sf_session_close(&d->s[0]);
	return r;
}

static int compare_all(struct diff *d, struct sf_error *err)
{
	bool far = d->s[0].store->far || d->s[1].store->far;
	int r = match(d, err);

	if (r >= 0 && d->o->values) {
		sf_progress_start(&d->progress);
		r = sf_parallel(d->n, far ? FAR_AT_ONCE : 0, compare, d, err);
		sf_progress_end(&d->progress);
	}
	return r;
}

static int run_opened(struct diff *d, const struct sf_common *common, struct sf_error *err)
{
	int r = compare_all(d, err);
	size_t changed = 0;

	if (r >= 0) {
		changed = d->o->json ? print_json(d) : print_text(d);
		fflush(stdout);
	}
	if (r >= 0 && !d->o->json && !common->quiet)
		fprintf(stderr,
		        "%" PRIu32 " only in the first, %" PRIu32
		        " only in the second, %zu differ, %zu are the same%s\n",
		        d->nonly[0], d->nonly[1], changed, d->n - changed,
		        d->o->values ? "" : " (without --values: of the same dtype and shape)");
	return r < 0 ? r : changed || d->nonly[0] || d->nonly[1] ? DIFFER : SAME;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_io io;
	struct diff d = { .o = opt, .io = &io, .objects = PTHREAD_MUTEX_INITIALIZER };
	int r = sf_session_io(&io, &common->session, &err);

	(void)argc;
	if (r < 0)
		return sf_cli_error(TROUBLE, &err);
	sf_progress_init(&d.progress, common->quiet);
	r = open_both(&d, common, argv, &err);
	if (r >= 0) {
		r = run_opened(&d, common, &err);
		sf_session_close(&d.s[0]);
		sf_session_close(&d.s[1]);
	}
	sf_io_release(&io);
	free(d.pair);
	free(d.only[0]);
	free(d.only[1]);
	return r < 0 ? sf_cli_error(TROUBLE, &err) : r;
}

const struct sf_cmd sf_cmd_diff = {
	.name = "diff",
	.usage = "A B [--values] [--json]",
	.about = "keys that only one of two checkpoints has, changed dtypes, shapes and values; "
		 "exit 1: "
		 "they differ, 2: could not tell",
	.example = "shardfuse diff /ckpt/step1000 /ckpt/step2000 --values --model-only",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.opt_size = sizeof(struct diff_options),
	.run = run,
};
