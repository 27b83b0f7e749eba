#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/buf.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/text.h"

struct ls_options {
	bool detail, recursive;
};

static const struct sf_opt options[] = {
	{ "long", 'l', SF_OPT_FLAG, offsetof(struct ls_options, detail), NULL, NULL,
	  "type, size and time" },
	{ "recursive", 'R', SF_OPT_FLAG, offsetof(struct ls_options, recursive), NULL, NULL,
	  "directories below too" },
	{ 0 },
};

/* One listing under way; path is that of the directory, "" for the root. */
struct ls {
	const struct ls_options *o;
	struct sf_tree *tree;
	struct sf_buf path;
	struct sf_error err;
	int failed;
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

static void print_entry(struct ls *l, const char *name, size_t len, sf_node node,
                        enum sf_node_type type)
{
	if (l->o->detail) {
		struct sf_attr a;
		char when[32] = "";
		struct tm tm;
		int r = attr_of(l, node, &a);
		time_t t = r >= 0 ? (time_t)(a.mtime_ns / 1000000000) : 0;
		if (r >= 0 && localtime_r(&t, &tm))
			strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
		if (r >= 0)
			printf("%c %15" PRIu64 " %s ",
			       type == SF_NODE_DIR    ? 'd'
			       : type == SF_NODE_LINK ? 'l'
			                              : '-',
			       a.size, when);
		else
			printf("? %15s %16s ", "?", "");
		if (r < 0) {
			if (!l->err.msg[0])
				sf_fail(&l->err, r, "'%.*s': %s", (int)SF_MIN(len, (size_t)255),
				        name, strerror(-r));
			sf_cli_error(0, &l->err);
			l->err.msg[0] = 0;
			l->failed = r;
		}
	}
	if (l->o->recursive && l->path.len) {
		sf_put_name(stdout, (const char *)l->path.at, l->path.len);
		putchar('/');
	}
	sf_put_name(stdout, name, len);
	if (type == SF_NODE_DIR && !l->o->detail)
		putchar('/');
	if (type == SF_NODE_LINK && l->o->detail) {
		char target[4096];
		int n = sf_tree_readlink(l->tree, node, target, sizeof(target));
		printf(" -> ");
		sf_put_name(stdout, target, n > 0 ? (size_t)n : 0);
	}
	putchar('\n');
}

static int list(struct ls *l, sf_node dir);

static int each(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                uint64_t next)
{
	struct ls *l = arg;
	(void)next;

	print_entry(l, name, len, node, type);
	if (!l->o->recursive || type != SF_NODE_DIR)
		return 0;
	size_t was = l->path.len;
	if (was)
		sf_buf_byte(&l->path, '/');
	sf_buf_add(&l->path, name, len);
	int r = list(l, node); /* as deep as a key has parts, which the loader limits */
	l->path.len = was;
	return r;
}

static int list(struct ls *l, sf_node dir)
{
	return sf_tree_readdir(l->tree, dir, 0, each, l);
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct ls l = { .o = opt };
	const char *path = argc > 1 ? argv[1] : "";
	struct sf_session s;
	struct sf_attr a;
	sf_node node;
	int r;

	if (sf_session_open(&s, common, argv[0], &l.err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &l.err);
	l.tree = s.tree;
	r = sf_tree_walk(s.tree, path, true, &node, &l.err);
	if (r >= 0)
		r = attr_of(&l, node, &a);
	if (r < 0) {
		sf_cli_error(SF_EXIT_FAILED, &l.err);
	} else if (a.type == SF_NODE_DIR) {
		r = list(&l, node);
	} else {
		print_entry(&l, path, strlen(path), node, a.type);
	}
	sf_buf_release(&l.path);
	sf_session_close(&s);
	return r < 0 || l.failed ? SF_EXIT_FAILED : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_ls = {
	.name = "ls",
	.usage = "[-l] [-R] SOURCE [PATH]",
	.about = "the virtual tree, as a mount would show it",
	.example = "shardfuse ls -l /ckpt/step1000 state/model",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 2,
	.opt_size = sizeof(struct ls_options),
	.run = run,
};
