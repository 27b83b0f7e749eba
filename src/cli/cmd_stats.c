#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/get_choice.h"
#include "cli/table.h"
#include "cli/text.h"
#include "parse/dtype_number.h"
#include "tool/numbers.h"
#include "tool/parallel.h"
#include "tool/progress.h"
#include "tool/stats.h"
#include "view/hf/hf_names.h" /* sf_natural_compare */

enum { BAR = 40, FAR_AT_ONCE = 16 };

struct stats_options {
	bool histogram, json;
};

static const struct sf_opt options[] = {
	{ "histogram", 'H', SF_OPT_FLAG, offsetof(struct stats_options, histogram), NULL, NULL,
	  "how the numbers are spread, in 20 equal parts: reads them twice" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct stats_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

/* One tensor and what was found. */
struct one {
	uint32_t entry;
	char *why; /* nothing was, and why; NULL */
	struct sf_stats stats;
	struct sf_histogram histogram;
};

struct all {
	const struct stats_options *o;
	struct sf_session *s;
	struct one *at;
	size_t n;
	struct sf_progress progress;
	_Atomic bool broken; /* some could not be read */
};

static const struct sf_entry *entry_of(const struct all *a, const struct one *one)
{
	return &a->s->catalog->entry[one->entry];
}

static const struct sf_tensor *tensor_of(const struct all *a, const struct one *one)
{
	return &a->s->ckpt->tensor[entry_of(a, one)->tensor];
}

struct reading {
	struct all *a;
	struct one *one;
	uint64_t bytes; /* of a number */
};

static int add(void *arg, const double *v, size_t n)
{
	struct reading *r = arg;

	sf_stats_add(&r->one->stats, v, n);
	sf_progress_add(&r->a->progress, n * r->bytes);
	return 0;
}

static int add_again(void *arg, const double *v, size_t n)
{
	struct reading *r = arg;

	sf_histogram_add(&r->one->histogram, v, n);
	sf_progress_add(&r->a->progress, n * r->bytes);
	return 0;
}

static int compute(void *arg, size_t i, struct sf_error *err)
{
	struct all *a = arg;
	struct one *one = &a->at[i];
	const struct sf_entry *e = entry_of(a, one);
	const enum sf_dtype dtype = (enum sf_dtype)tensor_of(a, one)->dtype;
	struct reading r = { a, one, 0 };
	int code;

	if (!sf_dtype_numbers(dtype)) {
		one->why = strdup("no numbers");
		return one->why ? 0 : -ENOMEM;
	}
	r.bytes = sf_dtype_info(dtype)->bytes / sf_dtype_numbers(dtype);
	code = sf_numbers_each(a->s->reader, e->tensor, add, &r, err);
	if (code >= 0 && a->o->histogram && sf_stats_finite(&one->stats)) {
		sf_histogram_begin(&one->histogram, &one->stats);
		code = sf_numbers_each(a->s->reader, e->tensor, add_again, &r, err);
	}
	if (code >= 0 || code == -ENOMEM || code == -ECANCELED)
		return code;
	/* the others have theirs */
	one->stats = (struct sf_stats){ 0 };
	one->why = strdup(err->msg);
	atomic_store(&a->broken, true);
	return one->why ? 0 : -ENOMEM;
}

/* ---- for people ---- */

static void put_number(struct sf_table *t, const struct sf_stats *s, double v)
{
	if (sf_stats_finite(s))
		sf_table_cell(t, isnan(v) ? "too large" : "%.5g", v);
	else
		sf_table_cell(t, "%s", "");
}

static void put_row(struct sf_table *t, const struct all *a, const struct one *one)
{
	const struct sf_entry *e = entry_of(a, one);
	const struct sf_stats *s = &one->stats;
	SF_CLEANUP(sf_buf_release) struct sf_buf shape = { 0 };

	sf_shape_text(&shape, tensor_of(a, one)->shape, tensor_of(a, one)->ndim);
	sf_table_name(t, e->name, e->len);
	sf_table_cell(t, "%s", sf_dtype_info((enum sf_dtype)tensor_of(a, one)->dtype)->torch);
	sf_table_cell(t, "%s", sf_buf_cstr(&shape));
	put_number(t, s, s->min);
	put_number(t, s, s->max);
	put_number(t, s, s->mean);
	put_number(t, s, sf_stats_std(s));
	sf_table_cell(t, "%" PRIu64, s->zeros);
	sf_table_cell(t, "%" PRIu64, s->nan);
	sf_table_cell(t, "%" PRIu64, s->pinf + s->ninf);
	sf_table_name(t, one->why ? one->why : "", one->why ? strlen(one->why) : 0);
}

static void put_histogram(const struct all *a, const struct one *one)
{
	const struct sf_histogram *h = &one->histogram;
	const double step = h->max / SF_BINS - h->min / SF_BINS;
	uint64_t most = 1;

	if (!sf_stats_finite(&one->stats))
		return;
	for (unsigned i = 0; i < SF_BINS; i++)
		most = SF_MAX(most, h->bin[i]);
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { 0 };
	sf_escape_text(&name, entry_of(a, one)->name, entry_of(a, one)->len);
	printf("\n%s\n", sf_buf_cstr(&name));
	for (unsigned i = 0; i < SF_BINS; i++) {
		unsigned n = (unsigned)(((double)h->bin[i] / (double)most) * BAR + 0.5);
		printf("  %12.5g  %12" PRIu64 "  ", h->min + step * i, h->bin[i]);
		for (unsigned k = 0; k < n || (k == 0 && h->bin[i]); k++)
			putchar('#');
		putchar('\n');
	}
	printf("  %12.5g\n", h->max);
}

static int print_text(const struct all *a, struct sf_error *err)
{
	static const char *const head[] = { "KEY", "DTYPE", "SHAPE", "MIN", "MAX", "MEAN",
		                            "STD", "ZEROS", "NAN",   "INF", "" };
	struct sf_table t = { .align = "lllrrrrrrrl" };
	struct sf_buf out = { 0 };
	int r;

	for (size_t i = 0; i < SF_ARRAY_LEN(head); i++)
		sf_table_cell(&t, "%s", head[i]);
	for (size_t i = 0; i < a->n; i++)
		put_row(&t, a, &a->at[i]);
	sf_table_put(&out, &t, "");
	r = sf_buf_check(&out);
	if (r >= 0)
		fwrite(out.at, 1, out.len, stdout);
	for (size_t i = 0; i < a->n && a->o->histogram && r >= 0; i++)
		put_histogram(a, &a->at[i]);
	sf_table_release(&t);
	sf_buf_release(&out);
	return r < 0 ? sf_fail(err, r, "out of memory") : 0;
}

/* ---- for programs ---- */

static void member(const char *name, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.17g", v);
	printf(isfinite(v) ? ", \"%s\": %s" : ", \"%s\": null", name, text);
}

static void print_one(const struct all *a, const struct one *one)
{
	const struct sf_entry *e = entry_of(a, one);
	const struct sf_stats *s = &one->stats;

	printf("{\"key\": ");
	sf_put_json(stdout, e->name, e->len);
	printf(", \"dtype\": \"%s\", \"shape\": [",
	       sf_dtype_info((enum sf_dtype)tensor_of(a, one)->dtype)->torch);
	for (unsigned d = 0; d < tensor_of(a, one)->ndim; d++)
		printf("%s%" PRIu64, d ? ", " : "", tensor_of(a, one)->shape[d]);
	printf("], \"numbers\": %" PRIu64 ", \"zeros\": %" PRIu64 ", \"nan\": %" PRIu64
	       ", \"inf\": %" PRIu64 ", \"neg_inf\": %" PRIu64,
	       s->n, s->zeros, s->nan, s->pinf, s->ninf);
	if (sf_stats_finite(s)) {
		member("min", s->min);
		member("max", s->max);
		member("mean", s->mean);
		member("std", sf_stats_std(s));
	}
	if (one->why) {
		printf(", \"why\": ");
		sf_put_json(stdout, one->why, strlen(one->why));
	}
	if (a->o->histogram && sf_stats_finite(s)) {
		member("from", one->histogram.min);
		member("to", one->histogram.max);
		printf(", \"histogram\": [");
		for (unsigned i = 0; i < SF_BINS; i++)
			printf("%s%" PRIu64, i ? ", " : "", one->histogram.bin[i]);
		putchar(']');
	}
	putchar('}');
}

static void print_json(const struct all *a)
{
	printf("{\"schema\": 1, \"tensors\": [");
	for (size_t i = 0; i < a->n; i++) {
		printf("%s\n ", i ? "," : "");
		print_one(a, &a->at[i]);
	}
	printf("%s]}\n", a->n ? "\n" : "");
}

/* ---- which ---- */

static void add_tensor(struct all *a, uint32_t entry)
{
	struct one one = { .entry = entry };

	if (a->s->catalog->entry[entry].tensor == SF_NONE)
		return;
	atomic_fetch_add(&a->progress.total,
	                 a->s->ckpt->tensor[a->s->catalog->entry[entry].tensor].bytes *
	                         (a->o->histogram ? 2 : 1));
	a->at[a->n++] = one;
}

/* As people count: layers.2 before layers.10. */
static int natural(const void *x, const void *y, void *arg)
{
	const struct all *a = arg;
	const struct sf_entry *p = entry_of(a, x), *q = entry_of(a, y);

	return sf_natural_compare(p->name, p->len, q->name, q->len);
}

/* All tensors, or those that are asked for in the order of asking. */
static int choose(struct all *a, int nkeys, char **keys, struct sf_error *err)
{
	const struct sf_catalog *c = a->s->catalog;
	struct sf_get_choice ch = { 0 };
	int r = 0;

	a->at = sf_alloc_array(SF_MAX(c->n, 1u), sizeof(*a->at));
	if (!a->at)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " keys", c->n);
	for (uint32_t i = 0; i < c->n && !nkeys; i++)
		add_tensor(a, i);
	if (nkeys)
		r = sf_get_choose(c, nkeys, keys, &ch, err);
	for (uint32_t i = 0; i < ch.n && r >= 0; i++) {
		const struct sf_entry *e = &c->entry[ch.at[i].entry];
		if (ch.at[i].slice)
			r = sf_fail(err, -EINVAL, "'%.300s%.100s': stats are of whole tensors",
			            e->name, ch.at[i].part);
		else
			add_tensor(a, ch.at[i].entry);
	}
	sf_get_choice_release(&ch);
	if (r >= 0 && !a->n)
		return sf_fail(err, -ENOENT, "no tensors%s", nkeys ? " among these keys" : "");
	if (!nkeys)
		qsort_r(a->at, a->n, sizeof(*a->at), natural, a);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	struct all a = { .o = opt, .s = &s };

	if (sf_session_open(&s, &common->session, argv[0], &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	sf_progress_init(&a.progress, common->quiet);
	int r = choose(&a, argc - 1, argv + 1, &err);
	if (r >= 0) {
		sf_progress_start(&a.progress);
		r = sf_parallel(a.n, s.store->far ? FAR_AT_ONCE : 0, compute, &a, &err);
		sf_progress_end(&a.progress);
	}
	if (r >= 0 && a.o->json)
		print_json(&a);
	else if (r >= 0)
		r = print_text(&a, &err);
	if (r >= 0 && a.broken)
		r = sf_fail(&err, -EIO, "some tensors could not be read: their rows say why");
	for (size_t i = 0; i < a.n; i++)
		free(a.at[i].why);
	free(a.at);
	fflush(stdout);
	sf_session_close(&s);
	return r < 0 ? sf_cli_error(r == -EINVAL ? SF_EXIT_USAGE : SF_EXIT_FAILED, &err)
	             : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_stats = {
	.name = "stats",
	.usage = "SOURCE [KEY…] [-H] [--json]",
	.about = "smallest, largest, mean and deviation of tensors' numbers, zeros, NaN, Inf",
	.example = "shardfuse stats /ckpt/step1000 model.embed.weight -H",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = -1,
	.opt_size = sizeof(struct stats_options),
	.run = run,
};
