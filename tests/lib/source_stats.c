#include "config.h"

#include <stdlib.h>

#include "store/filter.h"
#include "tests/lib/test_stores.h"

struct stats_source {
	struct sf_filter flt;
	struct sf_stats *to;
};

struct seen {
	struct sf_io_hook hook;
	struct sf_stats *to;
};

static int note(struct sf_stats *to, uint64_t len, int r)
{
	to->requests++;
	to->bytes += len;
	to->failed += r < 0;
	return r;
}

static int stats_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                     uint64_t len, struct sf_error *err)
{
	struct sf_source *inner = sf_filter_inner(src);
	int r = inner->ops->try_read(inner, off, iov, niov, len, err);

	return r == -EAGAIN ? r : note(((struct stats_source *)src)->to, len, r);
}

static int ended(struct sf_io_hook *hook, struct sf_io_req *req, int r)
{
	note(((struct seen *)hook)->to, req->len, r);
	free(hook);
	return r;
}

static void stats_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct seen *seen = calloc(1, sizeof(*seen));

	if (!seen) {
		sf_io_req_end(req, sf_fail(&req->err, -ENOMEM, "no memory for statistics"));
		return;
	}
	seen->hook.ended = ended;
	seen->to = ((struct stats_source *)src)->to;
	sf_filter_watch(src, req, &seen->hook);
}

static const struct sf_source_ops ops = { .try_read = stats_try, .submit = stats_submit };

static int wrap(void *arg, struct sf_source *src, struct sf_source **ret, struct sf_error *err)
{
	struct stats_source *s = calloc(1, sizeof(*s));

	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", src->name);
	s->to = arg;
	sf_filter_init(&s->flt, &ops, src);
	*ret = &s->flt.s;
	return 0;
}

int sf_source_stats(struct sf_source *src, struct sf_stats *stats, struct sf_source **ret,
                    struct sf_error *err)
{
	return wrap(stats, src, ret, err);
}

int sf_store_stats(struct sf_store *s, struct sf_stats *stats, struct sf_store **ret,
                   struct sf_error *err)
{
	return sf_store_filter(s, wrap, NULL, stats, ret, err);
}
