/*
 * OLMo-core's step directory: shards and .metadata in model_and_optim/, .metadata.json last, which is what
 * its discovery looks for. train/rankR.pt are files that the caller adds.
 * Source: allenai/OLMo-core src/olmo_core/train/checkpoint.py, 3.0.0; docs/formats/olmo-core.md.
 */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "save/save_dcp.h"
#include "save/save_priv.h"

#define DIR "model_and_optim/"
/* what its own Checkpointer writes, of the first release that knows `ephemeral` */
static const char least[] = "{\"ephemeral\": false, \"version\": \"2.5.0\"}";

static int check(const struct shardfuse_save *s, const struct sf_global_plan *g,
                 struct sf_error *err)
{
	const char *text = s->format_metadata;
	struct sf_json *json;
	int r;

	(void)g;
	if (!text)
		return 0;
	r = sf_json_parse(text, strlen(text), &json, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "format_metadata");
	sf_json_free(json);
	return text[strspn(text, " \t\r\n")] == '{'
	               ? 0
	               : sf_fail(err, -EINVAL, "format_metadata: a JSON object is needed");
}

static int finish(struct shardfuse_save *s, struct sf_save_target *t,
                  const struct sf_global_plan *g, struct sf_error *err)
{
	const char *text = s->format_metadata ? s->format_metadata : least;
	int r = sf_save_dcp_metadata(s, t, DIR, g, err);

	return r < 0 ? r
	             : sf_save_target_put(t, ".metadata.json", text, strlen(text), !s->opt.no_fsync,
	                                  err);
}

const struct sf_save_format sf_save_olmo = {
	.name = "olmo", .shards = DIR, .last = ".metadata.json", .check = check, .finish = finish
};
