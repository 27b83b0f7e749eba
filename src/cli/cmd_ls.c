#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "view/hf/hf_names.h" /* sf_natural_compare */

struct ls_options {
	bool detail, recursive, one, human, all, json;
};

static const struct sf_opt options[] = {
	{ "long", 'l', SF_OPT_FLAG, offsetof(struct ls_options, detail), NULL, NULL,
	  "with type, size and time" },
	{ "human", 'h', SF_OPT_FLAG, offsetof(struct ls_options, human), NULL, NULL,
	  "with -l: print sizes as 1.4 GB" },
	{ "all", 'a', SF_OPT_FLAG, offsetof(struct ls_options, all), NULL, NULL,
	  "include names that begin with a dot" },
	{ "recursive", 'R', SF_OPT_FLAG, offsetof(struct ls_options, recursive), NULL, NULL,
	  "list subdirectories too" },
	{ "single-column", '1', SF_OPT_FLAG, offsetof(struct ls_options, one), NULL, NULL,
	  "one name per line, even on a terminal" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct ls_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

/* An entry of the directory that is listed; its name is in the directory's text. */
struct item {
	size_t at, len;
	sf_node node;
	enum sf_node_type type;
};
SF_VEC(items, struct item);
struct dir {
	const struct ls *l;
	struct items items;
	struct sf_buf text;
};

/* A listing under way. */
struct ls {
	const struct ls_options *o;
	struct sf_tree *tree;
	struct sf_buf path; /* of the directory, as it is shown in front of names; "" none */
	bool columns;
	struct sf_error err;
	int failed;
	uint64_t shown;
};

static int attr_of(struct ls *l, sf_node node, struct sf_attr *a)
{
	int r = sf_tree_attr(l->tree, node, a);
	if (r == -EAGAIN) {
		r = sf_tree_prepare(l->tree, node, &l->err);
		if (r >= 0)
			r = sf_tree_attr(l->tree, node, a);
	}
	return r;
}

/* Its size could not be told: said once, and the listing goes on. */
static void complain(struct ls *l, const char *name, size_t len, int r)
{
	if (!l->err.msg[0])
		sf_fail(&l->err, r, "'%.*s': %s", (int)SF_MIN(len, (size_t)255), name,
		        strerror(-r));
	fflush(stdout);
	sf_cli_error(0, &l->err);
	l->err.msg[0] = 0;
	l->failed = r;
}

static void print_target(struct ls *l, sf_node node, bool json)
{
	char target[4096];
	int n = sf_tree_readlink(l->tree, node, target, sizeof(target));
	size_t len = n > 0 ? (size_t)n : 0;

	if (json)
		sf_put_json(stdout, target, len);
	else
		sf_put_name(stdout, target, len);
}

static void print_json(struct ls *l, const char *name, size_t len, const struct item *it)
{
	static const char *const types[] = { "dir", "file", "link" };
	struct sf_buf full = { 0 };
	struct sf_attr a;
	int r = attr_of(l, it->node, &a);

	if (r < 0)
		complain(l, name, len, r);
	sf_buf_add(&full, l->path.at, l->path.len);
	if (full.len)
		sf_buf_byte(&full, '/');
	sf_buf_add(&full, name, len);
	printf("%s\n  {\"path\": ", l->shown++ ? "," : "");
	sf_put_json(stdout, sf_buf_cstr(&full), sf_buf_bytes(&full));
	printf(", \"type\": \"%s\", \"size\": ", types[it->type]);
	if (r >= 0)
		printf("%" PRIu64, a.size);
	else
		printf("null");
	if (r >= 0) {
		time_t t = (time_t)(a.mtime_ns / 1000000000);
		char when[40] = "";
		struct tm tm;
		if (gmtime_r(&t, &tm))
			strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
		printf(", \"mtime\": \"%s\"", when);
	}
	if (it->type == SF_NODE_LINK) {
		printf(", \"target\": ");
		print_target(l, it->node, true);
	}
	putchar('}');
	sf_buf_release(&full);
}

static void print_detail(struct ls *l, const char *name, size_t len, const struct item *it)
{
	char size[32], when[40];
	struct sf_attr a;
	int r = attr_of(l, it->node, &a);

	if (r < 0) {
		printf("? %15s %22s ", "?", "");
		complain(l, name, len, r);
		return;
	}
	if (l->o->human)
		sf_human_size(a.size, size);
	else
		snprintf(size, sizeof(size), "%" PRIu64, a.size);
	sf_time_text(a.mtime_ns, when);
	printf("%c %*s %s ",
	       it->type == SF_NODE_DIR    ? 'd'
	       : it->type == SF_NODE_LINK ? 'l'
	                                  : '-',
	       l->o->human ? 8 : 15, size, when);
}

static void print_item(struct ls *l, const char *name, size_t len, const struct item *it)
{
	if (l->o->json) {
		print_json(l, name, len, it);
		return;
	}
	if (l->o->detail)
		print_detail(l, name, len, it);
	if (l->o->recursive && l->path.len) {
		sf_put_name(stdout, (const char *)l->path.at, l->path.len);
		putchar('/');
	}
	sf_put_name(stdout, name, len);
	if (it->type == SF_NODE_DIR && !l->o->detail)
		putchar('/');
	if (it->type == SF_NODE_LINK && l->o->detail) {
		printf(" -> ");
		print_target(l, it->node, false);
	}
	putchar('\n');
}

static int collect(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                   uint64_t next)
{
	struct dir *d = arg;
	const struct item it = { d->text.len, len, node, type };
	(void)next;

	if (len && name[0] == '.' && !d->l->o->all)
		return 0;
	sf_buf_add(&d->text, name, len);
	return sf_buf_check(&d->text) < 0 || items_push(&d->items, it) < 0 ? -ENOMEM : 0;
}

static const char *name_of(const struct dir *d, const struct item *it)
{
	return (const char *)d->text.at + it->at;
}

/* As people count: layers.2 before layers.10. */
static int natural(const void *a, const void *b, void *arg)
{
	const struct item *x = a, *y = b;
	return sf_natural_compare(name_of(arg, x), x->len, name_of(arg, y), y->len);
}

/* On a terminal: names side by side. */
static int print_columns(const struct dir *d)
{
	SF_FREE char **name = calloc(d->items.n + 1, sizeof(*name));
	struct sf_buf text = { 0 };
	SF_FREE size_t *at = sf_alloc_array(d->items.n, sizeof(*at));

	for (size_t i = 0; name && at && i < d->items.n; i++) {
		const struct item *it = &d->items.at[i];
		at[i] = text.len;
		sf_escape_text(&text, name_of(d, it), it->len);
		sf_buf_str(&text, it->type == SF_NODE_DIR ? "/" : "");
		sf_buf_byte(&text, 0);
	}
	int r = name && at ? sf_buf_check(&text) : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < d->items.n; i++)
		name[i] = (char *)text.at + at[i];
	if (r >= 0 && d->items.n)
		sf_put_columns(stdout, name, d->items.n, sf_terminal_width(stdout));
	sf_buf_release(&text);
	return r;
}

static int list(struct ls *l, sf_node node)
{
	struct dir d = { .l = l };
	int r = sf_tree_readdir(l->tree, node, 0, collect, &d);

	/* what machines read stays in stored order */
	if (r >= 0 && !l->o->json && d.items.n)
		qsort_r(d.items.at, d.items.n, sizeof(*d.items.at), natural, &d);
	if (r >= 0 && l->columns)
		r = print_columns(&d);
	for (size_t i = 0; i < d.items.n && r >= 0 && !l->columns; i++) {
		const struct item *it = &d.items.at[i];
		print_item(l, name_of(&d, it), it->len, it);
		if (!l->o->recursive || it->type != SF_NODE_DIR)
			continue;
		size_t was = l->path.len;
		if (was)
			sf_buf_byte(&l->path, '/');
		sf_buf_add(&l->path, name_of(&d, it), it->len);
		r = list(l, it->node); /* as deep as a key has parts, which the loader limits */
		l->path.len = was;
	}
	items_release(&d.items);
	sf_buf_release(&d.text);
	return r < 0 ? sf_fail(&l->err, r, "%zu names", d.items.n) : 0;
}

/* A path given: a file is itself, a directory its entries, under its name where there are several. */
static int list_path(struct ls *l, const char *path, bool several, bool dirs)
{
	struct item it = { .at = 0 };
	struct sf_attr a;
	int r = sf_tree_walk(l->tree, path, true, &it.node, &l->err);

	if (r < 0 || (r = sf_tree_attr(l->tree, it.node, &a), r < 0 && r != -EAGAIN)) {
		if (dirs)
			return 0; /* said before */
		if (!l->err.msg[0])
			sf_fail(&l->err, r, "'%s': %s", path, strerror(-r));
		sf_cli_error(0, &l->err);
		l->err.msg[0] = 0;
		l->failed = r;
		return 0;
	}
	it.type = r == -EAGAIN ? SF_NODE_FILE : a.type;
	if ((it.type == SF_NODE_DIR) != dirs)
		return 0;
	l->path.len = 0;
	if (!dirs) {
		print_item(l, path, strlen(path), &it);
		l->shown++;
		return 0;
	}
	if (l->o->json) {
		while (*path == '/')
			path++;
		size_t len = strlen(path);
		while (len && path[len - 1] == '/')
			len--;
		sf_buf_add(&l->path, path, len);
	} else if (several) {
		printf(l->shown ? "\n" : "");
		sf_put_name(stdout, path, strlen(path));
		printf(":\n");
		l->shown++;
	}
	return list(l, it.node);
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct ls l = { .o = opt };
	struct sf_session s;
	char root[] = "", *none[] = { root }, **paths = argc > 1 ? argv + 1 : none;
	int n = argc > 1 ? argc - 1 : 1, r = 0;

	if (sf_session_open(&s, &common->session, argv[0], &l.err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &l.err);
	l.tree = s.tree;
	l.columns =
		isatty(STDOUT_FILENO) && !l.o->detail && !l.o->one && !l.o->json && !l.o->recursive;
	if (l.o->json)
		printf("{\"schema\": 1, \"entries\": [");
	for (int dirs = 0; dirs < 2; dirs++) /* files first, as ls has it */
		for (int i = 0; i < n && r >= 0; i++)
			r = list_path(&l, paths[i], n > 1, dirs);
	if (l.o->json)
		printf("%s]}\n", l.shown ? "\n " : "");
	if (r < 0)
		sf_cli_error(SF_EXIT_FAILED, &l.err);
	sf_buf_release(&l.path);
	sf_session_close(&s);
	return r < 0 || l.failed ? SF_EXIT_FAILED : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_ls = {
	.name = "ls",
	.usage = "[-l] [-h] [-a] [-R] [-1] SOURCE [PATH…] [--json]",
	.about = "list the virtual tree, as a mount would show it",
	.example = "shardfuse ls -lh /ckpt/step1000\nshardfuse ls /ckpt/step1000 hf state/model",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = -1,
	.opt_size = sizeof(struct ls_options),
	.run = run,
};
