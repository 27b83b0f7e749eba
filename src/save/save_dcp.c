#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "base/pages.h"
#include "save/dcp_meta_write.h"
#include "save/save_dcp.h"
#include "save/save_priv.h"

struct out {
	int fd;
	uint64_t off;
};

static int write_some(void *arg, const void *at, size_t len, struct sf_error *err)
{
	struct out *o = arg;

	while (len) {
		ssize_t n = pwrite(o->fd, at, len, (off_t)o->off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return sf_fail_errno(err, ".metadata: write at %llu of %zu bytes",
			                     (unsigned long long)o->off, len);
		at = (const char *)at + n;
		len -= (size_t)n;
		o->off += (uint64_t)n;
	}
	return 0;
}

int sf_save_dcp_metadata(struct shardfuse_save *s, struct sf_save_target *t, const char *dir,
                         const struct sf_global_plan *g, struct sf_error *err)
{
	struct sf_dcp_meta_options o = { .storage_info_module =
		                                 "torch.distributed.checkpoint.filesystem",
		                         .zstd = s->opt.zstd ? "stream.zstd/1" : NULL };
	char part[64], name[64];
	struct out out = { -1, 0 };
	int r;

	snprintf(part, sizeof(part), "%s.metadata.tmp", dir);
	snprintf(name, sizeof(name), "%s.metadata", dir);
	r = sf_save_target_open(t, part, 0, &out.fd, err);
	if (r < 0)
		return r;
	r = sf_dcp_meta_write(g, &o, write_some, &out, err);
	if (r >= 0 && !s->opt.no_fsync && fsync(out.fd) < 0)
		r = sf_fail_errno(err, ".metadata: fsync");
	if (close(out.fd) < 0 && r >= 0)
		r = sf_fail_errno(err, ".metadata: close");
	return r < 0 ? r : sf_save_target_rename(t, part, name, err);
}

static int finish(struct shardfuse_save *s, struct sf_save_target *t,
                  const struct sf_global_plan *g, struct sf_error *err)
{
	return sf_save_dcp_metadata(s, t, "", g, err);
}

const struct sf_save_format sf_save_dcp = { .name = "dcp", .shards = "", .finish = finish };
