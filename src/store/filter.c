#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/filter.h"
#include "store/upload.h"

static int forward_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                       uint64_t len, struct sf_error *err)
{
	struct sf_source *inner = sf_filter_inner(src);

	return inner->ops->try_read(inner, off, iov, niov, len, err);
}

static int forward_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	struct sf_source *inner = sf_filter_inner(src);

	return inner->ops->lend(inner, off, len, ret);
}

static void forward_unlend(struct sf_source *src, void *token)
{
	struct sf_source *inner = sf_filter_inner(src);

	inner->ops->unlend(inner, token);
}

static void forward_cancel(struct sf_source *src, struct sf_io_req *req)
{
	struct sf_source *inner = sf_filter_inner(src);

	inner->ops->cancel(inner, req);
}

static int forward_check(struct sf_source *src, struct sf_error *err)
{
	struct sf_source *inner = sf_filter_inner(src);

	return inner->ops->check(inner, err);
}

void sf_filter_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct sf_source *inner = sf_filter_inner(src);

	req->src = inner;
	inner->ops->submit(inner, req);
}

void sf_filter_watch(struct sf_source *src, struct sf_io_req *req, struct sf_io_hook *hook)
{
	hook->src = src;
	hook->outer = req->hook;
	req->hook = hook;
	sf_filter_submit(src, req);
}

void sf_filter_free(struct sf_source *src)
{
	sf_source_unref(sf_filter_inner(src));
	free(src);
}

void sf_filter_init(struct sf_filter *f, const struct sf_source_ops *own, struct sf_source *inner)
{
	const struct sf_source_ops *in = inner->ops;

	f->ops = *own;
	f->ops.try_read = own->try_read ? own->try_read : forward_try;
	f->ops.submit = own->submit ? own->submit : sf_filter_submit;
	f->ops.check = own->check ? own->check : forward_check;
	f->ops.free = own->free ? own->free : sf_filter_free;
	f->ops.counts |= in->counts;
	if (!own->lend && in->lend)
		f->ops.lend = forward_lend;
	if (!own->unlend && in->unlend)
		f->ops.unlend = forward_unlend;
	if (!own->cancel && in->cancel)
		f->ops.cancel = forward_cancel;
	f->inner = sf_source_ref(inner);
	f->s = (struct sf_source){ .ops = &f->ops,
		                   .hints = inner->hints,
		                   .refs = 1,
		                   .io = inner->io,
		                   .name = inner->name,
		                   .size = inner->size,
		                   .version = inner->version };
}

/* ---- stores ---- */

struct filter_store {
	struct sf_store s;
	struct sf_store_ops ops;
	struct sf_put_ops
		put; /* the inner one's, if it has any: what is written goes through as it is */
	struct sf_store *inner;
	sf_store_wrap *wrap;
	sf_store_fd *fd;
	void (*done)(void *arg);
	void *arg;
};

static int filter_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                       struct sf_source **ret, struct sf_error *err)
{
	struct filter_store *f = (struct filter_store *)s;
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	int r = f->inner->ops->open(f->inner, name, want, &src, err);

	return r < 0 ? r : f->wrap(f->arg, src, ret, err);
}

static int filter_list(struct sf_store *s, const char *dir, unsigned depth,
                       int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                       struct sf_error *err)
{
	struct filter_store *f = (struct filter_store *)s;

	return f->inner->ops->list(f->inner, dir, depth, each, arg, err);
}

static int filter_look(struct sf_store *s, const char *const *names, size_t n,
                       int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                       struct sf_error *err)
{
	struct filter_store *f = (struct filter_store *)s;

	return f->inner->ops->look(f->inner, names, n, each, arg, err);
}

static struct sf_store *inner_of(struct sf_store *s)
{
	return ((struct filter_store *)s)->inner;
}

static int filter_put(struct sf_store *s, const struct sf_put_to *to,
                      const struct sf_put_body *body, char **ret_etag, struct sf_error *err)
{
	return inner_of(s)->ops->put->put(inner_of(s), to, body, ret_etag, err);
}

static int filter_begin(struct sf_store *s, const struct sf_put_to *to, char **ret_id,
                        struct sf_error *err)
{
	return inner_of(s)->ops->put->begin(inner_of(s), to, ret_id, err);
}

static int filter_part(struct sf_store *s, const struct sf_put_to *to, const char *id,
                       uint32_t number, const struct sf_put_body *body, char **ret_etag,
                       struct sf_error *err)
{
	return inner_of(s)->ops->put->part(inner_of(s), to, id, number, body, ret_etag, err);
}

static int filter_finish(struct sf_store *s, const struct sf_put_to *to, const char *id,
                         const char *const *etag, uint32_t n, char **ret_etag, struct sf_error *err)
{
	return inner_of(s)->ops->put->finish(inner_of(s), to, id, etag, n, ret_etag, err);
}

static int filter_abort(struct sf_store *s, const struct sf_put_to *to, const char *id,
                        struct sf_error *err)
{
	return inner_of(s)->ops->put->abort(inner_of(s), to, id, err);
}

static int filter_remove(struct sf_store *s, const struct sf_put_to *to, struct sf_error *err)
{
	return inner_of(s)->ops->put->remove(inner_of(s), to, err);
}

static int filter_unfinished(struct sf_store *s, const struct sf_put_to *to,
                             int (*each)(void *arg, const char *name, const char *id), void *arg,
                             struct sf_error *err)
{
	return inner_of(s)->ops->put->unfinished(inner_of(s), to, each, arg, err);
}

static const struct sf_put_ops *forward_put(struct filter_store *f, const struct sf_put_ops *in)
{
	if (!in)
		return NULL;
	f->put = (struct sf_put_ops){ .part_min = in->part_min,
		                      .part_max = in->part_max,
		                      .parts_max = in->parts_max,
		                      .put = filter_put,
		                      .begin = filter_begin,
		                      .part = filter_part,
		                      .finish = filter_finish,
		                      .abort = filter_abort,
		                      .remove = filter_remove,
		                      .unfinished = filter_unfinished };
	return &f->put;
}

static void filter_store_free(struct sf_store *s)
{
	struct filter_store *f = (struct filter_store *)s;

	sf_store_free(f->inner);
	if (f->done)
		f->done(f->arg);
	free(s->source);
	free(s->at);
	free(f);
}

static int filter_fd(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                     struct sf_error *err)
{
	struct filter_store *f = (struct filter_store *)s;

	return f->fd(f->arg, name, want, err);
}

void sf_store_filter_fd(struct sf_store *s, sf_store_fd *fd)
{
	struct filter_store *f = (struct filter_store *)s;

	f->fd = fd;
	f->ops.fd = filter_fd;
}

int sf_store_filter(struct sf_store *s, sf_store_wrap *wrap, void (*done)(void *arg), void *arg,
                    struct sf_store **ret, struct sf_error *err)
{
	struct filter_store *f = calloc(1, sizeof(*f));
	char *source = strdup(s->source), *at = s->at ? strdup(s->at) : NULL;

	if (!f || !source || (s->at && !at)) {
		free(f);
		free(source);
		free(at);
		if (done)
			done(arg);
		return sf_fail(err, -ENOMEM, "no memory for a store");
	}
	f->ops = (struct sf_store_ops){ .open = filter_open,
		                        .list = filter_list,
		                        .look = s->ops->look ? filter_look : NULL,
		                        .put = forward_put(f, s->ops->put),
		                        .free = filter_store_free };
	f->s = (struct sf_store){ .ops = &f->ops,
		                  .io = s->io,
		                  .far = s->far,
		                  .source = source,
		                  .at = at,
		                  .opt = s->opt };
	f->inner = s;
	f->wrap = wrap;
	f->done = done;
	f->arg = arg;
	*ret = &f->s;
	return 0;
}
