#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/mem.h"
#include "cli/expect.h"
#include "cli/text.h"

static const struct sf_strict modes[] = {
	{ "assume_ok_unexpected", true, false, true },
	{ "log_unexpected", true, false, false },
	{ "log_all", true, true, false },
	{ "raise_unexpected", true, false, true },
	{ "raise_all", true, true, true },
	{ "return_unexpected", true, false, true },
	{ "return_all", true, true, true },
	{ "ignore_all", false, false, false },
};

const struct sf_strict *sf_strict_by_name(const char *name)
{
	for (size_t i = 0; i < SF_ARRAY_LEN(modes); i++)
		if (strcmp(name, modes[i].name) == 0)
			return &modes[i];
	return NULL;
}

const char *sf_strict_name(size_t i)
{
	return i < SF_ARRAY_LEN(modes) ? modes[i].name : NULL;
}

static int add(struct sf_strs *l, char *text)
{
	const char **at = text && (l->n & (l->n - 1)) == 0
	                          ? realloc(l->at, (l->n ? l->n * 2 : 1) * sizeof(*at))
	                          : l->at;
	if (!text || !at) {
		free(text);
		return -ENOMEM;
	}
	l->at = at;
	l->at[l->n++] = text;
	return 0;
}

/* "16x37", "[16, 37]", "16,37"; "[]" and "scalar" have no dimension. -1: no shape. */
static int parse_shape(const char *s, uint64_t shape[SF_DIMS_MAX])
{
	int n = 0;
	while (*s) {
		if (*s >= '0' && *s <= '9') {
			char *end;
			if (n == SF_DIMS_MAX)
				return -1;
			shape[n++] = strtoull(s, &end, 10);
			s = end;
		} else if (strchr("[](), x", *s)) {
			s++;
		} else {
			return strcmp(s, "scalar") == 0 ? 0 : -1;
		}
	}
	return n;
}

static int mismatch(struct sf_expect_report *ret, uint32_t entry, struct sf_buf *expected,
                    struct sf_buf *found)
{
	size_t n = ret->nmismatched;
	struct sf_mismatch *at = (n & (n - 1)) == 0
	                                 ? realloc(ret->mismatched, (n ? n * 2 : 1) * sizeof(*at))
	                                 : ret->mismatched;
	if (!at)
		return -ENOMEM;
	ret->mismatched = at;
	at += n;
	*at = (struct sf_mismatch){ entry, strdup(sf_buf_cstr(expected)),
		                    strdup(sf_buf_cstr(found)) };
	ret->nmismatched++;
	return at->expected && at->found ? 0 : -ENOMEM;
}

static void put_shape(struct sf_buf *out, const uint64_t *shape, int ndim)
{
	sf_buf_str(out, out->len ? " [" : "[");
	for (int d = 0; d < ndim; d++)
		sf_buf_printf(out, d ? ", %" PRIu64 : "%" PRIu64, shape[d]);
	sf_buf_byte(out, ']');
}

static int compare_tensor(const struct sf_catalog *c, uint32_t entry, const char *dtype,
                          const char *shape_text, struct sf_expect_report *ret)
{
	const struct sf_entry *e = &c->entry[entry];
	struct sf_buf expected = { 0 }, found = { 0 };
	uint64_t shape[SF_DIMS_MAX];
	int r = 0;

	if (!dtype)
		return 0;
	if (strncmp(dtype, "torch.", 6) == 0)
		dtype += 6;
	if (e->tensor == SF_NONE) {
		sf_buf_str(&expected, dtype);
		sf_buf_str(&found, "object");
	} else {
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		const char *have = sf_dtype_info(t->dtype)->torch;
		if (strcmp(dtype, have) != 0) {
			sf_buf_str(&expected, dtype);
			sf_buf_str(&found, have);
		}
		int n = shape_text ? parse_shape(shape_text, shape) : t->ndim;
		bool same = n == t->ndim;
		for (int d = 0; shape_text && same && d < n; d++)
			same = shape[d] == t->shape[d];
		if (!same) {
			if (n >= 0)
				put_shape(&expected, shape, n);
			else
				sf_buf_printf(&expected, "%s%s", expected.len ? " " : "",
				              shape_text);
			put_shape(&found, t->shape, t->ndim);
		}
	}
	if (expected.len)
		r = mismatch(ret, entry, &expected, &found);
	if (sf_buf_check(&expected) < 0 || sf_buf_check(&found) < 0)
		r = -ENOMEM;
	sf_buf_release(&expected);
	sf_buf_release(&found);
	return r;
}

/* Names may hold blanks: a tab ends them if there is one, else the first blank does. */
static char *cut_field(char **at)
{
	char *s = *at, *end;
	if (!s || !*s)
		return NULL;
	end = strchr(s, '\t');
	if (!end)
		end = strchr(s, ' ');
	*at = end ? end + 1 + strspn(end + 1, " \t") : NULL;
	if (end)
		*end = 0;
	return s;
}

int sf_expect_compare(const struct sf_catalog *c, const char *file, struct sf_expect_report *ret,
                      struct sf_error *err)
{
	SF_FREE bool *seen = calloc(c->n + 1, sizeof(*seen));
	FILE *f = fopen(file, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	int r = seen ? 0 : -ENOMEM;

	if (!f)
		return sf_fail_errno(err, "'%s'", file);
	while (r >= 0 && (len = getline(&line, &cap, f)) > 0) {
		while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
			line[--len] = 0;
		if (!len || line[0] == '#')
			continue;
		char *rest = line, *key = line, *dtype = NULL, *shape = NULL;
		uint32_t i = sf_catalog_find(
			c, line, (size_t)len); /* the whole line first: names hold anything */
		if (i == SF_NONE) {
			key = cut_field(&rest);
			dtype = cut_field(&rest);
			shape = rest;
			i = sf_catalog_find(c, key, strlen(key));
		}
		if (i == SF_NONE) {
			r = add(&ret->missing, strdup(key));
		} else {
			seen[i] = true;
			r = compare_tensor(c, i, dtype, shape && *shape ? shape : NULL, ret);
		}
	}
	ret->unexpected = sf_alloc_array(c->n, sizeof(*ret->unexpected));
	if (!ret->unexpected)
		r = -ENOMEM;
	for (uint32_t i = 0; i < c->n && r >= 0; i++)
		if (!seen[i])
			ret->unexpected[ret->nunexpected++] = i;
	free(line);
	fclose(f);
	return r < 0 ? sf_fail(err, r, "'%s': out of memory", file) : 0;
}

void sf_expect_release(struct sf_expect_report *r)
{
	for (size_t i = 0; i < r->missing.n; i++)
		free((void *)r->missing.at[i]);
	for (size_t i = 0; i < r->nmismatched; i++) {
		free(r->mismatched[i].expected);
		free(r->mismatched[i].found);
	}
	free(r->missing.at);
	free(r->unexpected);
	free(r->mismatched);
}
