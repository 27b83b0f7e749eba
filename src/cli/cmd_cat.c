#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "tool/copy_out.h"

/* .shardfuse/: the numbers of this run; those of a mount are in the mount. */
static int put_live(struct sf_session *s, sf_node node, struct sf_error *err)
{
	SF_FREE char *text = NULL;
	size_t len;
	int r = sf_tree_live_text(s->tree, node, &s->io->counters, &text, &len, err);

	if (r >= 0)
		fwrite(text, 1, len, stdout);
	return r;
}

static int put_file(struct sf_session *s, sf_node node, const char *path, struct sf_error *err)
{
	struct sf_vfile *file = NULL;
	int r = sf_tree_open(s->tree, node, &file, err);

	if (r == -EISDIR)
		sf_fail(err, r, "'%s' is a directory (shardfuse ls lists it)", path);
	if (r >= 0)
		r = sf_vfile_prepare(file, err);
	if (r >= 0)
		r = sf_terminal_check(file, path, err);
	if (r >= 0)
		r = sf_copy_out(s, file, STDOUT_FILENO, err);
	sf_vfile_unref(file);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	struct sf_attr a;
	sf_node node;
	(void)opt, (void)argc;

	if (sf_session_open(&s, &common->session, argv[0], &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	int r = sf_tree_walk(s.tree, argv[1], true, &node, &err);
	if (r >= 0) {
		bool live = sf_tree_attr(s.tree, node, &a) >= 0 && a.live;
		r = live ? put_live(&s, node, &err) : put_file(&s, node, argv[1], &err);
	}
	sf_session_close(&s);
	return r < 0 ? sf_cli_error(SF_EXIT_FAILED, &err) : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_cat = {
	.name = "cat",
	.usage = "SOURCE PATH",
	.about = "print a virtual file; binary ones only into a file or a pipe",
	.example = "shardfuse cat /ckpt/step1000 model.safetensors > model.safetensors",
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.run = run,
};
