/* Filters: a source around a source (retry, a cache, statistics). What a filter does not do itself
 * goes through to the inner one. */
#ifndef SF_STORE_FILTER_H
#define SF_STORE_FILTER_H

#include "store/source.h"

struct sf_filter {
	struct sf_source s;       /* first */
	struct sf_source_ops ops; /* the filter's own, forwarding ones in between */
	struct sf_source *inner;  /* a reference */
};

/*
 * sf_filter_init - @f, all 0, becomes a source around @inner, which is referenced: of the same
 * name, size, version and hints.
 *
 * @own: what the filter does itself; NULL members forward, to what the inner source has of them.
 * Its free, if it has one, ends with sf_filter_free().
 */
void sf_filter_init(struct sf_filter *f, const struct sf_source_ops *own, struct sf_source *inner);
void sf_filter_free(struct sf_source *src); /* lets the inner one go and frees the filter */

static inline struct sf_source *sf_filter_inner(struct sf_source *src)
{
	return ((struct sf_filter *)src)->inner;
}

/* A submitted request goes on to the inner source, as it is. */
void sf_filter_submit(struct sf_source *src, struct sf_io_req *req);
/* The same, and @hook->ended is called when it ends, on any thread, where it must not take long.
 * @hook is the filter's memory, its to free from then on. */
void sf_filter_watch(struct sf_source *src, struct sf_io_req *req, struct sf_io_hook *hook);

/*
 * sf_store_filter - a store whose sources all go through @wrap.
 *
 * @s is taken over, unless it fails. @wrap: *ret becomes a source around @src, which it references.
 * @done, if any, is called with @arg when the store is freed. It has no descriptors, unless the next
 * one says where they are: passthrough would go round the filter.
 */
typedef int sf_store_wrap(void *arg, struct sf_source *src, struct sf_source **ret,
                          struct sf_error *err);
int sf_store_filter(struct sf_store *s, sf_store_wrap *wrap, void (*done)(void *arg), void *arg,
                    struct sf_store **ret, struct sf_error *err);
/* What sf_store_ops.fd() does of a store that sf_store_filter() made, before anybody uses it. */
typedef int sf_store_fd(void *arg, const char *name, const struct sf_objinfo *want,
                        struct sf_error *err);
void sf_store_filter_fd(struct sf_store *s, sf_store_fd *fd);

#endif
