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

static int compare_tensor(const struct sf_catalog *c, const struct sf_entry *e, const char *dtype,
                          const char *shape_text, struct sf_strs *mismatched)
{
	uint64_t shape[SF_DIMS_MAX];

	if (!dtype)
		return 0;
	if (e->tensor == SF_NONE)
		return add(mismatched,
		           sf_cli_text("%s: an object, expected a tensor of %s", e->name, dtype));
	const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
	const char *have = sf_dtype_info(t->dtype)->torch;
	if (strncmp(dtype, "torch.", 6) == 0)
		dtype += 6;
	if (strcmp(dtype, have) != 0)
		return add(mismatched,
		           sf_cli_text("%s: dtype %s, expected %s", e->name, have, dtype));
	if (!shape_text)
		return 0;
	int n = parse_shape(shape_text, shape);
	bool same = n == t->ndim;
	for (int d = 0; same && d < n; d++)
		same = shape[d] == t->shape[d];
	if (same)
		return 0;
	struct sf_buf found = { 0 };
	for (unsigned d = 0; d < t->ndim; d++)
		sf_buf_printf(&found, d ? ", %" PRIu64 : "%" PRIu64, t->shape[d]);
	int r = sf_buf_check(&found);
	if (r >= 0)
		r = add(mismatched, sf_cli_text("%s: shape [%s], expected %s", e->name,
		                                sf_buf_cstr(&found), shape_text));
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
			r = compare_tensor(c, &c->entry[i], dtype, shape && *shape ? shape : NULL,
			                   &ret->mismatched);
		}
	}
	for (uint32_t i = 0; i < c->n && r >= 0; i++)
		if (!seen[i])
			r = add(&ret->unexpected, strdup(c->entry[i].name));
	free(line);
	fclose(f);
	return r < 0 ? sf_fail(err, r, "'%s': out of memory", file) : 0;
}

static void release(struct sf_strs *l)
{
	for (size_t i = 0; i < l->n; i++)
		free((void *)l->at[i]);
	free(l->at);
}

void sf_expect_release(struct sf_expect_report *r)
{
	release(&r->missing);
	release(&r->unexpected);
	release(&r->mismatched);
}
