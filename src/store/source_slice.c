#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/filter.h"
#include "store/source_slice.h"

struct slice {
	struct sf_filter flt;
	uint64_t off; /* of the inner one */
	char text[];  /* name, NUL, etag, NUL */
};

/* A request that went on: its place is the caller's again when it ends. */
struct shifted {
	struct sf_io_hook hook;
	uint64_t off;
};

static uint64_t at(struct sf_source *src, uint64_t off)
{
	return ((struct slice *)src)->off + off;
}

static int slice_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                     uint64_t len, struct sf_error *err)
{
	struct sf_source *inner = sf_filter_inner(src);

	return inner->ops->try_read(inner, at(src, off), iov, niov, len, err);
}

static int slice_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	struct sf_source *inner = sf_filter_inner(src);

	return inner->ops->lend(inner, at(src, off), len, ret);
}

static int ended(struct sf_io_hook *hook, struct sf_io_req *req, int r)
{
	struct shifted *s = sf_container_of(hook, struct shifted, hook);

	req->off -= s->off;
	free(s);
	return r;
}

static void slice_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct shifted *s = calloc(1, sizeof(*s));

	if (!s) {
		sf_io_req_end(req, sf_fail(&req->err, -ENOMEM, "'%s': no memory for a request",
		                           src->name));
		return;
	}
	s->hook.ended = ended;
	s->off = ((struct slice *)src)->off;
	req->off += s->off;
	sf_filter_watch(src, req, &s->hook);
}

int sf_source_slice(struct sf_source *inner, uint64_t off, const struct sf_objinfo *info,
                    struct sf_source **ret, struct sf_error *err)
{
	struct sf_source_ops own = { .try_read = slice_try, .submit = slice_submit };
	const char *etag = info->version.etag;
	size_t name = strlen(info->name) + 1, tag = etag ? strlen(etag) + 1 : 0;
	struct slice *s;

	if (off > inner->size || info->size > inner->size - off)
		return sf_fail(err, -EBADMSG,
		               "'%s': %" PRIu64 " bytes at %" PRIu64 " of '%s', which has %" PRIu64,
		               info->name, info->size, off, inner->name, inner->size);
	s = calloc(1, sizeof(*s) + name + tag);
	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", info->name);
	if (inner->ops->lend)
		own.lend = slice_lend;
	own.on_pool = inner->ops->on_pool;
	sf_filter_init(&s->flt, &own, inner);
	memcpy(s->text, info->name, name);
	if (etag)
		memcpy(s->text + name, etag, tag);
	s->off = off;
	s->flt.s.name = s->text;
	s->flt.s.size = info->size;
	s->flt.s.version = info->version;
	s->flt.s.version.etag = etag ? s->text + name : NULL;
	*ret = &s->flt.s;
	return 0;
}
