#include "config.h"

#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/write_anew.h"

struct import_options {
	struct sf_anew_options anew;
};

#define AT(field) offsetof(struct import_options, anew.field)
static const struct sf_opt options[] = {
	{ "ranks", 0, SF_OPT_UINT, AT(ranks), NULL, "N",
	  "shards, as N ranks would write them: 1 (default) to 1,024" },
	{ "format", 0, SF_OPT_STR, AT(format), NULL, "dcp|olmo", "default dcp" },
	{ "force", 0, SF_OPT_FLAG, AT(force), NULL, NULL, "replace a checkpoint that is there" },
	{ 0 },
};

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_anew_options o = ((const struct import_options *)opt)->anew;
	const char *target = argv[argc - 1];

	o.ranks += !o.ranks;
	return sf_write_anew(common, argv, (size_t)argc - 1, target, &o);
}

const struct sf_cmd sf_cmd_import = {
	.name = "import",
	.usage = "FILE… TARGET [--ranks N] [--format dcp|olmo] [--force]",
	.about = "write files or a checkpoint as a sharded checkpoint",
	.example = "shardfuse import model.safetensors /ckpt/start --ranks 8",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = -1,
	.opt_size = sizeof(struct import_options),
	.run = run,
};
