#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/write_anew.h"

#define AT(field) offsetof(struct sf_anew_options, field)
static const struct sf_opt options[] = {
	{ "ranks", 0, SF_OPT_UINT, AT(ranks), NULL, "N",
	  "shards, as N ranks would write them: 1 to 1,024" },
	{ "format", 0, SF_OPT_STR, AT(format), NULL, "dcp|olmo", "default dcp" },
	{ "force", 0, SF_OPT_FLAG, AT(force), NULL, NULL, "replace a checkpoint that is there" },
	{ 0 },
};

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct sf_anew_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	(void)argc;

	if (!o->ranks) {
		sf_fail(&err, -EINVAL, "reshard: --ranks N is missing: 1 to 1,024");
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	return sf_write_anew(common, argv, 1, argv[1], o);
}

const struct sf_cmd sf_cmd_reshard = {
	.name = "reshard",
	.usage = "SOURCE TARGET --ranks N [--format dcp|olmo] [--force]",
	.about = "write a checkpoint anew for another number of ranks",
	.example = "shardfuse reshard /ckpt/step1000 /ckpt/step1000-64 --ranks 64",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.opt_size = sizeof(struct sf_anew_options),
	.run = run,
};
