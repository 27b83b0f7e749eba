#include "config.h"
#include <stdio.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/info.h"
#include "view/entry_json.h"

struct info_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct info_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

static int whole_json(const struct sf_session *s, struct sf_error *err)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf b = { 0 };

	sf_ckpt_json(&b, s->catalog);
	int r = sf_buf_check(&b);
	if (r < 0)
		return sf_fail(err, r, "info.json");
	fwrite(b.at, 1, b.len, stdout);
	return 0;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct info_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;

	int r = sf_session_open(&s, &common->session, argv[0], &err);
	if (r >= 0) {
		if (argc > 1)
			r = sf_info_keys(&s, argv[1], o->json, &err);
		else
			r = o->json ? whole_json(&s, &err) : sf_info_whole(&s, &err);
		sf_session_close(&s);
	}
	return r < 0 ? sf_cli_error(SF_EXIT_FAILED, &err) : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_info = {
	.name = "info",
	.usage = "SOURCE [KEY] [--json]",
	.about = "describe a checkpoint, or one key with its shard map and values",
	.example = "shardfuse info /ckpt/step1000\n"
		   "shardfuse info /ckpt/step1000 model.embed.weight\n"
		   "shardfuse info /ckpt/step1000 'model.embed.weight[0:4, :8]'",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 2,
	.opt_size = sizeof(struct info_options),
	.run = run,
};
