#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/object_line.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "view/entry_json.h"
#include "view/hf/hf_names.h" /* sf_natural_compare */
#include "catalog/key_near.h"

enum {
	WINDOW = 1024,   /* keys whose objects are fetched together */
	VALUE_MIN = 20,  /* columns of a value, however long its name is */
	VALUE_PIPE = 200 /* where no terminal says how wide it is */
};

struct keys_options {
	bool detail, json, null;
};

static const struct sf_opt options[] = {
	{ "long", 'l', SF_OPT_FLAG, offsetof(struct keys_options, detail), NULL, NULL,
	  "with dtype, shape, bytes and shards, or an object's value" },
	{ "null", '0', SF_OPT_FLAG, offsetof(struct keys_options, null), NULL, NULL,
	  "end each name with a NUL instead of a newline, unescaped (for xargs -0)" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct keys_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

struct listing {
	const struct keys_options *o;
	struct sf_session *s;
	const struct sf_catalog *c;
	uint32_t *entry;
	uint32_t n;
	size_t width; /* of the terminal, 0: none */
};

static size_t print_facts(const struct sf_catalog *c, const struct sf_entry *e)
{
	char size[32], shape[SF_DIMS_MAX * 21 + 3] = "[";
	size_t n = 1;

	if (e->tensor == SF_NONE)
		return (size_t)printf("%-10s %-18s %10s %6s  ", "object", "", "", "");
	const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
	for (unsigned d = 0; d < t->ndim; d++)
		n += (size_t)snprintf(shape + n, sizeof(shape) - n, "%s%" PRIu64, d ? "," : "",
		                      t->shape[d]);
	snprintf(shape + n, sizeof(shape) - n, "]");
	return (size_t)printf("%-10s %-18s %10s %6" PRIu32 "  ", sf_dtype_info(t->dtype)->torch,
	                      shape, sf_human_size(t->bytes, size), t->norder);
}

static void print_key(const struct listing *l, uint32_t entry, const char *value)
{
	const struct sf_entry *e = &l->c->entry[entry];
	size_t at = l->o->detail ? print_facts(l->c, e) : 0;

	if (l->o->null)
		fwrite(e->name, 1, e->len, stdout);
	else
		sf_put_name(stdout, e->name, e->len);
	if (value) {
		size_t room = VALUE_PIPE;
		at += sf_columns_shown(stdout, e->name, e->len) + strlen(" = ");
		if (l->width)
			room = l->width > at + VALUE_MIN ? l->width - at : VALUE_MIN;
		printf(" = ");
		sf_put_line(stdout, value, room);
	}
	putchar(l->o->null ? '\0' : '\n');
}

/* As people count: layers.2 before layers.10. */
static int natural(const void *a, const void *b, void *arg)
{
	const struct sf_entry *entry = arg, *x = &entry[*(const uint32_t *)a],
			      *y = &entry[*(const uint32_t *)b];
	return sf_natural_compare(x->name, x->len, y->name, y->len);
}

static int print_text(struct listing *l, struct sf_error *err)
{
	struct sf_object_lines values = { 0 };
	int r = 0;

	qsort_r(l->entry, l->n, sizeof(*l->entry), natural, (void *)(uintptr_t)l->c->entry);
	for (uint32_t i = 0; i < l->n && r >= 0; i += WINDOW) {
		uint32_t n = SF_MIN(l->n - i, (uint32_t)WINDOW);
		if (l->o->detail)
			r = sf_object_lines_load(&values, l->s, l->entry + i, n, err);
		for (uint32_t k = 0; k < n; k++) /* without values when they cannot be had */
			print_key(l, l->entry[i + k],
			          l->o->detail ? sf_object_line(&values, k) : NULL);
	}
	sf_object_lines_release(&values);
	return r;
}

/* In stored order. */
static int print_json(const struct listing *l, struct sf_error *err)
{
	int r = 0;

	printf("{\"schema\": 1, \"keys\": [");
	for (uint32_t i = 0; i < l->n && r >= 0; i++) {
		struct sf_buf b = { 0 };
		sf_entry_json(&b, l->c, l->entry[i]);
		r = sf_buf_check(&b);
		printf("%s\n ", i ? "," : "");
		fwrite(b.at, 1, b.len, stdout);
		sf_buf_release(&b);
	}
	printf("%s]}\n", l->n ? "\n" : "");
	return r < 0 ? sf_fail(err, r, "out of memory") : 0;
}

/* Names as they are: for whom a NUL ends them, and for no terminal. */
static int check_null(const struct listing *l, struct sf_error *err)
{
	if (isatty(STDOUT_FILENO))
		return sf_fail(
			err, -EPERM,
			"--null prints names as they are, which may garble the terminal: "
			"redirect it to a file (> FILE), or pipe it (| cat) to see it anyway");
	for (uint32_t i = 0; i < l->n; i++) {
		const struct sf_entry *e = &l->c->entry[l->entry[i]];
		struct sf_buf name = { 0 };
		if (!memchr(e->name, '\0', e->len))
			continue;
		for (uint32_t k = 0; k < SF_MIN(e->len, 200u); k++) /* as a file is called */
			sf_buf_add(&name, e->name[k] ? &e->name[k] : "%00", e->name[k] ? 1 : 3);
		sf_fail(err, -EINVAL,
		        "--null: key '%s' (NUL as %%00) holds a NUL itself; --json says it as it "
		        "is",
		        sf_buf_cstr(&name));
		sf_buf_release(&name);
		return -EINVAL;
	}
	return 0;
}

static int list(struct listing *l, const char *pattern, struct sf_error *err)
{
	l->entry = sf_alloc_array(l->c->n, sizeof(*l->entry));
	if (!l->entry)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " keys", l->c->n);
	for (uint32_t i = 0; i < l->c->n; i++)
		if (!pattern || sf_key_match(pattern, l->c->entry[i].name, l->c->entry[i].len))
			l->entry[l->n++] = i;
	int r = l->o->null && !l->o->json ? check_null(l, err) : 0;
	if (r >= 0)
		r = l->o->json ? print_json(l, err) : print_text(l, err);
	if (r >= 0 && pattern && !l->n)
		r = sf_catalog_no_key(l->c, pattern, strlen(pattern), err);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;

	if (sf_session_open(&s, &common->session, argv[0], &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	struct listing l = { .o = opt, .s = &s, .c = s.catalog };
	if (isatty(STDOUT_FILENO))
		l.width = sf_terminal_width(stdout);
	int r = list(&l, argc > 1 ? argv[1] : NULL, &err);
	if (r < 0) {
		fflush(stdout);
		sf_cli_error(SF_EXIT_FAILED, &err);
	}
	free(l.entry);
	sf_session_close(&s);
	return r < 0 ? SF_EXIT_FAILED : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_keys = {
	.name = "keys",
	.usage = "SOURCE [KEY] [-l] [-0] [--json]",
	.about = "list tensors and objects; KEY is a name with all below it, or a glob",
	.example = "shardfuse keys -l /ckpt/step1000 'model.layers.0'",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 2,
	.opt_size = sizeof(struct keys_options),
	.run = run,
};
