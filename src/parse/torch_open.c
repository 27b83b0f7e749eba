#include "config.h"

#include "base/mem.h"
#include "parse/torch_archive_priv.h"

int sf_torch_open(const struct sf_torch_input *in, const struct sf_torch_options *opt,
                  struct sf_arena *arena, struct sf_torch_archive *ret, struct sf_error *err)
{
	static int (*const open[SF_TORCH_NCONTAINERS])(struct sf_torch_open_op * o) = {
		[SF_TORCH_ZIP] = sf_torch_open_zip,
		[SF_TORCH_STREAM] = sf_torch_open_stream,
		[SF_TORCH_TAR] = sf_torch_open_tar,
	};
	struct sf_torch_open_op o = { .in = in,
		                      .opt = *opt,
		                      .arena = arena,
		                      .scratch = { .charge = arena->charge },
		                      .err = err };
	const uint8_t *head;
	uint64_t len = SF_MIN(in->len, (uint64_t)SF_TORCH_HEAD);
	int r = sf_torch_get(in, 0, len, len, "its head", &o.scratch, &head, err);

	if (!o.opt.part_max)
		o.opt.part_max = SF_TORCH_PART_MAX;
	if (r >= 0) {
		o.a.container = sf_torch_container(head, len);
		if (!open[o.a.container] ||
		    (opt->containers && !(opt->containers & 1u << o.a.container)))
			r = sf_fail(err, -ENOTSUP, SF_TORCH_NOT_READ);
		else
			r = open[o.a.container](&o);
	}
	sf_arena_release(&o.scratch);
	if (r < 0)
		return r;
	*ret = o.a;
	return 0;
}
