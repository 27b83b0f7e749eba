#include "config.h"

#include <stdio.h>

#include "save/dcp_meta_write.h"
#include "save/save_dcp.h"
#include "save/save_priv.h"

struct out {
	struct sf_target_file *file;
	uint64_t off;
};

static int write_some(void *arg, const void *at, size_t len, struct sf_error *err)
{
	struct out *o = arg;
	int r = sf_target_file_write(o->file, o->off, at, len, err);

	o->off += len;
	return r;
}

int sf_save_dcp_metadata(struct shardfuse_save *s, struct sf_save_target *t, const char *dir,
                         const struct sf_global_plan *g, struct sf_error *err)
{
	struct sf_dcp_meta_options o = { .storage_info_module =
		                                 "torch.distributed.checkpoint.filesystem",
		                         .tag = t->tag,
		                         .zstd = s->opt.zstd ? "stream.zstd/1" : NULL };
	struct out out = { NULL, 0 };
	char name[64];
	int r;

	snprintf(name, sizeof(name), "%s.metadata", dir);
	r = sf_save_target_open(t, name, 0, SF_TARGET_CLOSED, &out.file, err);
	if (r < 0)
		return r;
	r = sf_dcp_meta_write(g, &o, write_some, &out, err);
	if (r < 0)
		sf_target_file_drop(out.file);
	return r < 0 ? r : sf_target_file_close(out.file, !s->opt.no_fsync, err);
}

static int finish(struct shardfuse_save *s, struct sf_save_target *t,
                  const struct sf_global_plan *g, struct sf_error *err)
{
	return sf_save_dcp_metadata(s, t, "", g, err);
}

const struct sf_save_format sf_save_dcp = {
	.name = "dcp", .shards = "", .last = ".metadata", .finish = finish
};
