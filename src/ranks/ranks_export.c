#include "config.h"

#include "cli/export.h"
#include "ranks/ranks.h"

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct sf_out_share share = { .rank = sf_ranks.comm.rank,
		                            .size = sf_ranks.comm.size,
		                            .comm = &sf_ranks.comm,
		                            .agree = sf_ranks_agree };

	(void)argc;
	sf_ranks_begin();
	return sf_export(opt, common, argv, &share);
}

const struct sf_cmd sf_ranks_export = {
	.program = "shardfuse-mpi",
	.name = "export",
	.usage = "SOURCE TARGET --format hf|npy|dcp|pt|safetensors [--strategy NAME] [--force] [-j "
	         "N]",
	.about = "write the views as real files, each by one of the ranks",
	.example = "mpirun -n 8 shardfuse-mpi export /ckpt/step1000 /models/mine --format hf",
	.options = sf_export_option_table,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.opt_size = sizeof(struct sf_export_options),
	.run = run,
};
