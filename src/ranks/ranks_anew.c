/* import, reshard and export: each rank of the job is one of the checkpoint that is written. */
#include "config.h"

#include <stddef.h>

#include "cli/write_anew.h"
#include "ranks/ranks.h"

#define AT(field) offsetof(struct sf_anew_options, field)
static const struct sf_opt options[] = {
	{ "format", 0, SF_OPT_STR, AT(format), NULL, "dcp|olmo", "default dcp" },
	{ "force", 0, SF_OPT_FLAG, AT(force), NULL, NULL, "replace a checkpoint that is there" },
	{ 0 },
};

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_anew_options o = *(const struct sf_anew_options *)opt;

	sf_ranks_begin();
	o.ranks = sf_ranks.comm.size;
	o.comm = &sf_ranks.comm;
	return sf_write_anew(common, argv, (size_t)argc - 1, argv[argc - 1], &o);
}

const struct sf_cmd sf_ranks_import = {
	.program = "shardfuse-mpi",
	.name = "import",
	.usage = "FILE… TARGET [--format dcp|olmo] [--force]",
	.about = "write files as a checkpoint sharded over the ranks",
	.example = "mpirun -n 8 shardfuse-mpi import model.safetensors /ckpt/start",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = -1,
	.opt_size = sizeof(struct sf_anew_options),
	.run = run,
};

const struct sf_cmd sf_ranks_reshard = {
	.program = "shardfuse-mpi",
	.name = "reshard",
	.usage = "SOURCE TARGET [--format dcp|olmo] [--force]",
	.about = "write a checkpoint anew for as many ranks as the job has",
	.example = "mpirun -n 64 shardfuse-mpi reshard /ckpt/step1000 /ckpt/step1000-64",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.opt_size = sizeof(struct sf_anew_options),
	.run = run,
};
