#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/run_dir.h"

enum { SHOWN = 6 };

static size_t digits(const char *s)
{
	return strspn(s, "0123456789");
}

/*
 * What trainers call a step's directory: a number in decimal stands behind each prefix, and nothing
 * behind it. Source: torchtitan and OLMo-core (step-N, stepN), transformers (checkpoint-N),
 * Megatron-LM (iter_%07d), DeepSpeed (global_stepN) and verl (global_step_N).
 */
static const struct {
	const char *prefix;
	size_t min; /* digits, for a directory in a run */
} steps[] = {
	{ "step-", 1 }, { "step", 1 },         { "checkpoint-", 1 },
	{ "iter_", 7 }, { "global_step_", 1 }, { "global_step", 1 },
};

static size_t digits_to(const char *s, const char *end)
{
	const char *p = s;

	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return (size_t)(p - s);
}

/* Where the number begins that is the rest of the name; NULL: it is none of a step. */
static const char *number_in(const char *name, const char *end, size_t *ret_min)
{
	const size_t len = (size_t)(end - name);

	for (size_t i = 0; i < SF_ARRAY_LEN(steps); i++) {
		const size_t n = strlen(steps[i].prefix);
		*ret_min = steps[i].min;
		if (len > n && memcmp(name, steps[i].prefix, n) == 0 &&
		    digits_to(name + n, end) == len - n)
			return name + n;
	}
	/* Composer: ep0-ba2, of which the second number counts batches */
	*ret_min = 1;
	if (len < 2 || memcmp(name, "ep", 2) != 0)
		return NULL;
	size_t epoch = digits_to(name + 2, end);
	name += 2 + epoch;
	if (!epoch || end - name < 4 || memcmp(name, "-ba", 3) != 0)
		return NULL;
	name += 3;
	return digits_to(name, end) == (size_t)(end - name) ? name : NULL;
}

bool sf_run_dir_is_step(const char *name)
{
	const char *end = name + strlen(name);
	size_t min;
	const char *at = number_in(name, end, &min);

	return (at && (size_t)(end - at) >= min) || strcmp(name, "release") == 0;
}

bool sf_run_dir_is_part(const char *name)
{
	/* Source: volcengine/verl trainer/ppo/ray_trainer.py (_save_checkpoint) */
	static const char *const parts[] = { "actor", "critic" };

	for (size_t i = 0; i < SF_ARRAY_LEN(parts); i++)
		if (strcmp(name, parts[i]) == 0)
			return true;
	return false;
}

bool sf_run_dir_is_alias(const char *name)
{
	return strcmp(name, "latest") == 0 || strcmp(name, "latest-unsharded") == 0;
}

int64_t sf_run_dir_step(const char *name, size_t len)
{
	const char *end = name + len;
	size_t min;
	const char *at = number_in(name, end, &min);
	int64_t step = 0;

	if (!at || end - at > 18)
		return -1;
	for (; at < end; at++)
		step = step * 10 + (*at - '0');
	return step;
}

/* Numbers as numbers, all else as bytes. */
int sf_run_dir_compare(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	while (*x && *y) {
		size_t n = digits(x), m = digits(y);
		if (!n || !m) {
			if (*x != *y)
				break;
			x++, y++;
			continue;
		}
		for (; *x == '0' && n > 1; n--)
			x++;
		for (; *y == '0' && m > 1; m--)
			y++;
		int c = n != m ? (n < m ? -1 : 1) : strncmp(x, y, n);
		if (c)
			return c;
		x += n, y += m;
	}
	return (unsigned char)*x - (unsigned char)*y;
}

/* "step10, step20, …, step90" */
static void put_names(struct sf_buf *out, const char *const *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (n > SHOWN && i == 2) {
			sf_buf_str(out, ", …");
			i = n - 2;
		}
		sf_buf_printf(out, "%s%s", i ? ", " : "", name[i]);
	}
}

/* A child's message without its path, which stands beside it. */
static const char *reason(const struct sf_error *err)
{
	const char *behind = strstr(err->msg, "': ");

	return behind ? behind + 3 : err->msg;
}

struct found {
	const char *const *good; /* in order */
	size_t n;
	bool run, more;  /* they are called as steps are; there are others that were not asked */
	const char *bad; /* the newest that is none, and why */
	struct sf_error why;
};

static int say(const char *source, const struct found *f, struct sf_error *err)
{
	const char *slash = source[strlen(source) - 1] == '/' ? "" : "/";
	const char *newest = f->n ? f->good[f->n - 1] : "";
	SF_CLEANUP(sf_buf_release) struct sf_buf names = { .limit = 1024 }, none = { .limit = 512 };

	put_names(&names, f->good, f->n);
	if (f->bad)
		sf_buf_printf(&none, "%s %s: %.200s", f->n ? "; not" : "", f->bad, reason(&f->why));
	if (!f->n)
		return sf_fail(err, -ENOENT, "'%s' is %s that can be read:%s", source,
		               f->run ? "a run directory without a checkpoint"
		                      : "not a checkpoint and contains none",
		               sf_buf_cstr(&none));
	if (f->n == 1)
		return sf_fail(err, -ENOENT, "'%s' is %s: name '%s%s%s'%s", source,
		               f->run ? "a run directory with one checkpoint"
		                      : "not a checkpoint but contains one",
		               source, slash, newest, sf_buf_cstr(&none));
	return sf_fail(err, -ENOENT, "'%s' is %s %s%zu%s (%s): name one of them, as '%s%s%s'%s%s",
	               source, f->run ? "a run directory with" : "not a checkpoint but contains",
	               f->more ? "more than " : "", f->n, f->run ? " checkpoints" : "",
	               sf_buf_cstr(&names), source, slash, newest, f->run ? ", the newest" : "",
	               sf_buf_cstr(&none));
}

int sf_run_dir_refuse(const char *source, const char *const *name, size_t n,
                      int (*probe)(void *arg, const char *path, struct sf_error *err), void *arg,
                      struct sf_error *err)
{
	SF_FREE const char **step = sf_alloc_array(n, sizeof(*step));
	struct found f = { .more = n > SF_RUN_DIR_LOOKED };
	int bad_code = 0, r;

	if (!step)
		return sf_fail(err, -ENOMEM, "%zu names", n);
	memcpy(step, name, n * sizeof(*step));
	qsort(step, n, sizeof(*step), sf_run_dir_compare);
	/* from the newest on; the good ones move to the end, in order */
	for (size_t i = n; i-- > (f.more ? n - SF_RUN_DIR_LOOKED : 0);) {
		struct sf_error why = SF_ERROR_INIT;
		SF_FREE char *path = NULL;
		if (asprintf(&path, "%s/%s", source, step[i]) < 0)
			return sf_fail(err, -ENOMEM, "'%s'", source);
		r = probe(arg, path, &why);
		f.run = f.run || sf_run_dir_is_step(step[i]);
		if (r >= 0) {
			step[n - ++f.n] = step[i];
		} else if (!f.n && (!f.bad || (bad_code != -ENOTSUP && r == -ENOTSUP))) {
			/* that it is another format's says more than that one save did not end */
			f.bad = step[i];
			f.why = why;
			bad_code = r;
		}
	}
	f.good = step + n - f.n;
	r = say(source, &f, err);
	return !f.n && bad_code == -ENOTSUP ? -ENOTSUP : r;
}
