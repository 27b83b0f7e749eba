#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/upload_priv.h"

#define PART_BYTES (UINT64_C(8) << 20)

/* ---- names ---- */

static int name_it(const struct sf_uploads *u, const char *name, int r, struct sf_error *err)
{
	const char *source = u->store->source ? u->store->source : "";
	size_t n = strlen(source);

	return sf_fail_ctx(err, r, "'%s%s%s'", source, n && source[n - 1] != '/' ? "/" : "", name);
}

static const struct sf_put_ops *ops_of(const struct sf_uploads *u)
{
	return u->store->ops->put;
}

static struct sf_put_to to_of(const struct sf_uploads *u, const char *name, const char *type,
                              enum sf_upload_if when)
{
	return (struct sf_put_to){ .name = name, .type = type, .when = when, .stop = u->cancel };
}

int sf_uploads_init(struct sf_uploads *u, struct sf_error *err)
{
	u->state = NULL;
	if (!ops_of(u))
		return sf_fail(err, -ENOTSUP,
		               "'%s' cannot be written to: only s3:// and gs:// stores can",
		               u->store->source ? u->store->source : "");
	return sf_uploads_threads_init(u, err);
}

/* ---- small objects, and those that go ---- */

static int put(struct sf_uploads *u, const struct sf_put_to *to, const void *at, size_t len,
               char **ret_etag, struct sf_error *err)
{
	const struct sf_put_body body = { .at = at, .len = len };
	char *etag = NULL;
	int r = sf_uploads_enter(u, err);

	if (r < 0)
		return r;
	r = ops_of(u)->put(u->store, to, &body, &etag, err);
	sf_uploads_leave(u);
	if (r >= 0 && ret_etag)
		*ret_etag = SF_STEAL(etag);
	free(etag);
	return r;
}

int sf_upload_put(struct sf_uploads *u, const char *name, const void *at, size_t len,
                  enum sf_upload_if when, char **ret_etag, struct sf_error *err)
{
	const struct sf_put_to to = to_of(u, name, NULL, when);
	int r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	r = put(u, &to, at, len, ret_etag, err);
	return r < 0 ? name_it(u, name, r, err) : 0;
}

static int remove_one(struct sf_uploads *u, void *arg, size_t i, struct sf_error *err)
{
	const char *name = ((const char *const *)arg)[i];
	const struct sf_put_to to = to_of(u, name, NULL, SF_UPLOAD_REPLACE);
	int r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	r = ops_of(u)->remove(u->store, &to, err);
	return r < 0 && r != -ENOENT ? name_it(u, name, r, err) : 0;
}

int sf_upload_remove(struct sf_uploads *u, const char *const *names, size_t n, struct sf_error *err)
{
	return sf_uploads_each(u, n, remove_one, (void *)names, err);
}

/* ---- what others left ---- */

struct left {
	char *name, *id;
};
SF_VEC(lefts, struct left);
struct sweeping {
	struct lefts left;
	bool (*which)(void *arg, const char *name);
	void *arg;
	struct sf_error *err;
};

static int note_left(void *arg, const char *name, const char *id)
{
	struct sweeping *s = arg;
	struct left l;

	if (!s->which(s->arg, name))
		return 0;
	l = (struct left){ strdup(name), strdup(id) };
	if (l.name && l.id && lefts_push(&s->left, l) == 0)
		return 0;
	free(l.name);
	free(l.id);
	return sf_fail(s->err, -ENOMEM, "no memory for %zu unfinished uploads", s->left.n + 1);
}

static int abort_one(struct sf_uploads *u, void *arg, size_t i, struct sf_error *err)
{
	const struct left *l = &((struct sweeping *)arg)->left.at[i];
	const struct sf_put_to to = to_of(u, l->name, NULL, SF_UPLOAD_REPLACE);
	int r = ops_of(u)->abort(u->store, &to, l->id, err);

	return r < 0 && r != -ENOENT ? name_it(u, l->name, r, err) : 0;
}

int sf_upload_sweep(struct sf_uploads *u, const char *prefix,
                    bool (*which)(void *arg, const char *name), void *arg, struct sf_error *err)
{
	struct sweeping s = { .which = which, .arg = arg, .err = err };
	const struct sf_put_to to = to_of(u, prefix, NULL, SF_UPLOAD_REPLACE);
	int r = ops_of(u)->unfinished(u->store, &to, note_left, &s, err);

	if (r < 0)
		name_it(u, prefix, r, err);
	else
		r = sf_uploads_each(u, s.left.n, abort_one, &s, err);
	for (size_t i = 0; i < s.left.n; i++) {
		free(s.left.at[i].name);
		free(s.left.at[i].id);
	}
	lefts_release(&s.left);
	return r;
}

/* ---- an object ---- */

static void free_upload(struct sf_upload *up)
{
	for (size_t i = 0; i < up->part.n; i++)
		sf_upload_part_free(up->part.at[i]);
	sf_upload_parts_release(&up->part);
	free(up->id);
	free(up->type);
	free(up->name);
	free(up);
}

int sf_upload_begin(struct sf_uploads *u, const char *name, const struct sf_upload_options *o,
                    struct sf_upload **ret, struct sf_error *err)
{
	struct sf_upload *up;
	int r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	up = calloc(1, sizeof(*up));
	if (!up)
		return sf_fail(err, -ENOMEM, "'%s': no memory for an upload", name);
	up->u = u;
	up->when = o->when;
	up->held_last = &up->held;
	up->name = strdup(name);
	up->type = o->type ? strdup(o->type) : NULL;
	r = up->name && (up->type || !o->type)
	            ? sf_upload_plan_init(&up->plan, o->size,
	                                  u->part_bytes ? u->part_bytes : PART_BYTES, ops_of(u),
	                                  err)
	            : sf_fail(err, -ENOMEM, "no memory for an upload");
	if (r < 0) {
		free_upload(up);
		return name_it(u, name, r, err);
	}
	*ret = up;
	return 0;
}

/* [from, to) of @p is new: noted. -EINVAL: some of it came before. O(log n) where it goes on what is there. */
static int note_range(struct sf_upload_part *p, uint64_t from, uint64_t to, struct sf_error *err)
{
	struct sf_upload_ranges *v = &p->ranges;
	size_t lo = 0, hi = v->n; /* the first range that begins at or behind from */

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (v->at[mid].from < from)
			lo = mid + 1;
		else
			hi = mid;
	}
	if ((lo < v->n && v->at[lo].from < to) || (lo && v->at[lo - 1].to > from))
		return sf_fail(err, -EINVAL, "bytes of part %u are written twice, from %llu of it",
		               p->number + 1, (unsigned long long)from);
	bool before = lo && v->at[lo - 1].to == from, behind = lo < v->n && v->at[lo].from == to;
	if (before && behind) {
		v->at[lo - 1].to = v->at[lo].to;
		memmove(v->at + lo, v->at + lo + 1, (--v->n - lo) * sizeof(*v->at));
	} else if (before) {
		v->at[lo - 1].to = to;
	} else if (behind) {
		v->at[lo].from = from;
	} else {
		if (sf_upload_ranges_reserve(v, v->n + 1) < 0)
			return sf_fail(err, -ENOMEM, "no memory for an upload");
		memmove(v->at + lo + 1, v->at + lo, (v->n++ - lo) * sizeof(*v->at));
		v->at[lo] = (struct sf_upload_range){ from, to };
	}
	return 0;
}

/* May be all of the object: that is one PUT at its end. */
static bool is_alone(const struct sf_upload *up, const struct sf_upload_part *p)
{
	return p->number == 0 && (up->plan.size ? p->len == up->plan.size : up->part.n == 1);
}

/* Part @n, which is begun now if it was not. */
static int part_at(struct sf_upload *up, uint32_t n, uint64_t len, struct sf_upload_part **ret,
                   struct sf_error *err)
{
	struct sf_upload_part *first = up->part.n ? up->part.at[0] : NULL;
	int r = sf_upload_parts_reserve(&up->part, (size_t)n + 1);

	if (r < 0)
		return sf_fail(err, r, "no memory for %u parts", n + 1);
	while (up->part.n <= n)
		up->part.at[up->part.n++] = NULL;
	/* a first one that was full had waited whether there is more */
	if (first && !first->full && first->filled == first->len && !is_alone(up, first))
		r = sf_upload_part_send(first, err);
	if (r >= 0 && !up->part.at[n])
		r = sf_upload_part_new(up, n, len, &up->part.at[n], err);
	if (r >= 0)
		*ret = up->part.at[n];
	return r;
}

/* What of it is in one part; how much that was. */
static int write_some(struct sf_upload *up, uint64_t off, const void *at, size_t len,
                      size_t *ret_done, struct sf_error *err)
{
	struct sf_upload_part *p = NULL;
	uint64_t start, room;
	uint32_t n = sf_upload_plan_part(&up->plan, off, &start, &room);
	int r;

	if (n == UINT32_MAX)
		return sf_fail(err, -EFBIG, "byte %llu is behind what %u parts can hold",
		               (unsigned long long)off, up->plan.parts_max);
	r = part_at(up, n, room, &p, err);
	if (r < 0)
		return r;
	size_t now = (size_t)SF_MIN(room - (off - start), (uint64_t)len);
	r = p->full ? sf_fail(err, -EINVAL, "bytes from %llu on are written twice",
	                      (unsigned long long)off)
	            : note_range(p, off - start, off - start + now, err);
	if (r < 0)
		return r;
	memcpy(p->pages.at + (off - start), at, now);
	p->filled += now;
	*ret_done = now;
	if (p->filled == p->len && !is_alone(up, p))
		r = sf_upload_part_send(p, err);
	return r;
}

int sf_upload_write(struct sf_upload *up, uint64_t off, const void *at, size_t len,
                    struct sf_error *err)
{
	struct sf_error why = SF_ERROR_INIT;
	uint64_t end;
	int r = sf_upload_failed(up, &why);

	if (r >= 0 && (!sf_add(off, len, &end) || (up->plan.size && end > up->plan.size)))
		r = sf_fail(&why, -EINVAL, "%zu bytes from %llu on go past its size of %llu", len,
		            (unsigned long long)off, (unsigned long long)up->plan.size);
	for (size_t done = 0, now = 0; r >= 0 && done < len; done += now)
		r = write_some(up, off + done, (const uint8_t *)at + done, len - done, &now, &why);
	if (r >= 0) {
		up->end = SF_MAX(up->end, end);
		return 0;
	}
	/* some of it may have come, or its part be none: there is no going on */
	sf_upload_fail(up, r, why.msg);
	sf_fail(err, r, "%s", why.msg);
	name_it(up->u, up->name, r, err);
	return r;
}

/* ---- its end ---- */

/* Are all bytes there? None came twice, so it is enough to count them. */
static int check_whole(const struct sf_upload *up, struct sf_error *err)
{
	const uint64_t size = up->plan.size ? up->plan.size : up->end;
	uint64_t came = 0;

	for (size_t i = 0; i < up->part.n; i++)
		came += up->part.at[i] ? up->part.at[i]->filled : 0;
	if (came != size)
		return sf_fail(err, -EINVAL, "%llu bytes of it were written, it has %llu",
		               (unsigned long long)came, (unsigned long long)size);
	return 0;
}

static int finish_parts(struct sf_upload *up, char **ret_etag, struct sf_error *err)
{
	const struct sf_put_to to = to_of(up->u, up->name, up->type, up->when);
	SF_FREE const char **etag = sf_alloc_array(up->part.n, sizeof(*etag));
	struct sf_upload_part *last = up->part.at[up->part.n - 1];
	int r = etag ? 0 : sf_fail(err, -ENOMEM, "no memory for %zu parts", up->part.n);

	if (r >= 0 && !last->full)
		r = sf_upload_part_send(last, err);
	if (r >= 0)
		r = sf_upload_wait(up, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < up->part.n; i++)
		etag[i] = up->part.at[i]->etag;
	return ops_of(up->u)->finish(up->u->store, &to, up->id, etag, (uint32_t)up->part.n,
	                             ret_etag, err);
}

int sf_upload_finish(struct sf_upload *up, char **ret_etag, struct sf_error *err)
{
	const struct sf_put_to to = to_of(up->u, up->name, up->type, up->when);
	const struct sf_upload_part *only = up->part.n ? up->part.at[0] : NULL;
	SF_FREE char *etag = NULL;
	int r = sf_upload_failed(up, err);

	if (r >= 0)
		r = check_whole(up, err);
	if (r >= 0 && up->part.n > 1)
		r = finish_parts(up, &etag, err);
	else if (r >= 0)
		r = put(up->u, &to, only ? only->pages.at : NULL, (size_t)up->end, &etag, err);
	if (r < 0) {
		name_it(up->u, up->name, r, err);
		sf_upload_fail(up, r, "it was not finished");
		return r;
	}
	if (ret_etag)
		*ret_etag = SF_STEAL(etag);
	free_upload(up);
	return 0;
}

void sf_upload_drop(struct sf_upload *up)
{
	if (!up)
		return;
	sf_upload_fail(up, -ECANCELED, "dropped");
	sf_upload_wait(up, NULL);
	if (up->id) {
		/* whoever cancelled wants it to be gone too: that takes a request of its own */
		static const _Atomic bool never;
		struct sf_put_to to = to_of(up->u, up->name, up->type, up->when);

		to.stop = &never;
		ops_of(up->u)->abort(up->u->store, &to, up->id, NULL);
	}
	free_upload(up);
}
