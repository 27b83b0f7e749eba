#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/text.h"
#include "view/entry_json.h"
#include "view/key_near.h"

struct keys_options {
	bool detail, json;
};

static const struct sf_opt options[] = {
	{ "long", 'l', SF_OPT_FLAG, offsetof(struct keys_options, detail), NULL, NULL,
	  "dtype, shape, bytes and shards of each" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct keys_options, json), NULL, NULL, "for machines" },
	{ 0 },
};

static void print_long(const struct sf_catalog *c, const struct sf_entry *e)
{
	char size[32];

	if (e->tensor == SF_NONE) {
		printf("%-10s %-18s %10s %6s  ", "object", "", "", "");
	} else {
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		char shape[SF_DIMS_MAX * 21 + 3] = "[";
		size_t n = 1;
		for (unsigned d = 0; d < t->ndim; d++)
			n += (size_t)snprintf(shape + n, sizeof(shape) - n, "%s%" PRIu64,
			                      d ? "," : "", t->shape[d]);
		snprintf(shape + n, sizeof(shape) - n, "]");
		printf("%-10s %-18s %10s %6" PRIu32 "  ", sf_dtype_info(t->dtype)->torch, shape,
		       sf_human_size(t->bytes, size), t->norder);
	}
	sf_put_name(stdout, e->name, e->len);
	putchar('\n');
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct keys_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	uint32_t shown = 0;

	if (sf_session_open(&s, common, argv[0], &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	const struct sf_catalog *c = s.catalog;
	if (o->json)
		printf("{\"schema\": 1, \"keys\": [");
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sf_entry *e = &c->entry[i];
		if (argc > 1 && !sf_key_match(argv[1], e->name, e->len))
			continue;
		if (o->json) {
			struct sf_buf b = { 0 };
			printf("%s\n ", shown ? "," : "");
			sf_entry_json(&b, c, i);
			fwrite(b.at, 1, b.len, stdout);
			sf_buf_release(&b);
		} else if (o->detail) {
			print_long(c, e);
		} else {
			sf_put_name(stdout, e->name, e->len);
			putchar('\n');
		}
		shown++;
	}
	if (o->json)
		printf("%s]}\n", shown ? "\n" : "");
	if (argc > 1 && !shown) {
		sf_catalog_no_key(c, argv[1], strlen(argv[1]), &err);
		sf_cli_error(SF_EXIT_FAILED, &err);
	}
	sf_session_close(&s);
	return argc > 1 && !shown ? SF_EXIT_FAILED : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_keys = {
	.name = "keys",
	.usage = "SOURCE [KEY] [-l] [--json]",
	.about = "the tensors and objects; KEY is a name with all below it, or a glob",
	.example = "shardfuse keys -l /ckpt/step1000 'model.layers.0'",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 2,
	.opt_size = sizeof(struct keys_options),
	.run = run,
};
