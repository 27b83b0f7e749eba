#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/source.h"
#include "tests/lib/put_mem.h"

struct sf_put_mem_object {
	char *name, *etag;
	uint8_t *at;
	size_t len;
};
struct part {
	uint8_t *at;
	size_t len;
	char etag[32]; /* "": it did not come */
};
struct sf_put_mem_upload {
	char *name, *id;
	struct part *part;
	uint32_t nparts;
	struct sf_put_mem_upload *next;
};
struct store {
	struct sf_store s;
	struct sf_put_mem *m;
	char *prefix;
	struct sf_store_ops ops;
	struct sf_put_ops put;
};

static char *whole_name(struct sf_store *s, const char *name)
{
	char *whole;

	return asprintf(&whole, "%s%s", ((struct store *)s)->prefix, name) < 0 ? NULL : whole;
}

/* ---- objects ---- */

static struct sf_put_mem_object *find_locked(struct sf_put_mem *m, const char *name)
{
	for (size_t i = 0; i < m->nobjects; i++)
		if (strcmp(m->object[i].name, name) == 0)
			return &m->object[i];
	return NULL;
}

static void set_locked(struct sf_put_mem *m, const char *name, uint8_t *at, size_t len)
{
	struct sf_put_mem_object *o = find_locked(m, name);

	if (!o) {
		m->object = realloc(m->object, (m->nobjects + 1) * sizeof(*m->object));
		o = &m->object[m->nobjects++];
		*o = (struct sf_put_mem_object){ .name = strdup(name) };
	}
	free(o->at);
	free(o->etag);
	o->at = at;
	o->len = len;
	if (asprintf(&o->etag, "\"mem-%llu\"", (unsigned long long)++m->made) < 0)
		abort();
}

static bool remove_locked(struct sf_put_mem *m, const char *name)
{
	struct sf_put_mem_object *o = find_locked(m, name);

	if (!o)
		return false;
	free(o->name);
	free(o->etag);
	free(o->at);
	*o = m->object[--m->nobjects];
	return true;
}

static uint8_t *copy_of(const void *at, size_t len)
{
	uint8_t *to = malloc(len ? len : 1);

	if (to && len)
		memcpy(to, at, len);
	return to;
}

const void *sf_put_mem_at(struct sf_put_mem *m, const char *name, size_t *ret_len)
{
	pthread_mutex_lock(&m->m);
	struct sf_put_mem_object *o = find_locked(m, name);
	const void *at = o ? o->at : NULL;
	if (o && ret_len)
		*ret_len = o->len;
	pthread_mutex_unlock(&m->m);
	return at;
}

bool sf_put_mem_has(struct sf_put_mem *m, const char *name)
{
	return sf_put_mem_at(m, name, NULL) != NULL;
}

void sf_put_mem_set(struct sf_put_mem *m, const char *name, const void *at, size_t len)
{
	pthread_mutex_lock(&m->m);
	set_locked(m, name, copy_of(at, len), len);
	pthread_mutex_unlock(&m->m);
}

bool sf_put_mem_remove(struct sf_put_mem *m, const char *name)
{
	pthread_mutex_lock(&m->m);
	bool had = remove_locked(m, name);
	pthread_mutex_unlock(&m->m);
	return had;
}

size_t sf_put_mem_count(struct sf_put_mem *m)
{
	pthread_mutex_lock(&m->m);
	size_t n = m->nobjects;
	pthread_mutex_unlock(&m->m);
	return n;
}

size_t sf_put_mem_unfinished(struct sf_put_mem *m)
{
	size_t n = 0;

	pthread_mutex_lock(&m->m);
	for (struct sf_put_mem_upload *u = m->upload; u; u = u->next)
		n++;
	pthread_mutex_unlock(&m->m);
	return n;
}

/* ---- what goes wrong ---- */

static int wait_a_while(const struct sf_put_mem *m, const struct sf_put_to *to)
{
	int64_t end = sf_now_ms() + m->delay_ms;

	while (sf_now_ms() < end) {
		struct timespec t = sf_timespec(1000000);
		if (to->stop && atomic_load(to->stop))
			return -ECANCELED;
		nanosleep(&t, NULL);
	}
	return to->stop && atomic_load(to->stop) ? -ECANCELED : 0;
}

/* What the call is answered with: 0: what it does. *ret_late: it does that first. */
static int asked(struct sf_store *s, enum sf_put_mem_call call, const struct sf_put_to *to,
                 uint32_t part, bool *ret_late, struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	int r = wait_a_while(m, to);

	*ret_late = false;
	atomic_fetch_add(&m->calls[call], 1);
	if (r < 0)
		return sf_fail(err, r, "canceled");
	if (m->before) {
		r = m->before(m->arg, call, to->name, part);
		if (r < 0)
			return sf_fail(err, r, "the memory server says %d", r);
	}
	if (m->fail_calls && !(m->fail_calls & 1u << call))
		return 0;
	int64_t n = (int64_t)atomic_fetch_add(&m->counted, 1);
	if (n < m->fail_from || n >= m->fail_to)
		return 0;
	*ret_late = m->fail_late;
	return sf_fail(err, m->fail_code, "the memory server fails its call %lld", (long long)n);
}

static void body_begins(struct sf_put_mem *m)
{
	uint64_t now = atomic_fetch_add(&m->bodies, 1) + 1, most = atomic_load(&m->most_bodies);

	while (most < now && !atomic_compare_exchange_weak(&m->most_bodies, &most, now))
		;
}

/* ---- what is written ---- */

static int taken_locked(struct sf_put_mem *m, const struct sf_put_to *to, const char *name,
                        struct sf_error *err)
{
	if (to->when != SF_UPLOAD_CREATE || m->ignores_conditions || !find_locked(m, name))
		return 0;
	return sf_fail(err, -EEXIST, "there is an object of that name");
}

static int etag_locked(struct sf_put_mem *m, const char *name, char **ret, struct sf_error *err)
{
	*ret = strdup(find_locked(m, name)->etag);
	return *ret ? 0 : sf_fail(err, -ENOMEM, "no memory");
}

static int mem_put(struct sf_store *s, const struct sf_put_to *to, const struct sf_put_body *body,
                   char **ret_etag, struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	SF_FREE char *name = whole_name(s, to->name);
	bool late;

	body_begins(m);
	int failed = asked(s, SF_PUT_MEM_PUT, to, 0, &late, err), r = 0;
	if (failed >= 0 || late) {
		pthread_mutex_lock(&m->m);
		r = taken_locked(m, to, name, failed < 0 ? NULL : err);
		if (r >= 0) {
			set_locked(m, name, copy_of(body->at, body->len), body->len);
			atomic_fetch_add(&m->received, body->len);
			if (failed >= 0)
				r = etag_locked(m, name, ret_etag, err);
		}
		pthread_mutex_unlock(&m->m);
	}
	atomic_fetch_sub(&m->bodies, 1);
	return failed < 0 ? failed : r;
}

static int mem_begin(struct sf_store *s, const struct sf_put_to *to, char **ret_id,
                     struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	struct sf_put_mem_upload *u;
	bool late;
	int r = asked(s, SF_PUT_MEM_BEGIN, to, 0, &late, err);

	if (r < 0 && !late)
		return r;
	u = calloc(1, sizeof(*u));
	u->name = whole_name(s, to->name);
	pthread_mutex_lock(&m->m);
	if (asprintf(&u->id, "upload-%llu", (unsigned long long)++m->made) < 0)
		abort();
	u->next = m->upload;
	m->upload = u;
	if (r >= 0)
		*ret_id = strdup(u->id);
	pthread_mutex_unlock(&m->m);
	return r;
}

static struct sf_put_mem_upload **upload_locked(struct store *s, const struct sf_put_to *to,
                                                const char *id)
{
	SF_FREE char *name = whole_name(&s->s, to->name);
	struct sf_put_mem_upload **at = &s->m->upload;

	while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->name, name) != 0))
		at = &(*at)->next;
	return *at ? at : NULL;
}

static void set_part_locked(struct sf_put_mem *m, struct sf_put_mem_upload *u, uint32_t number,
                            const struct sf_put_body *body)
{
	if (number >= u->nparts) {
		u->part = realloc(u->part, (number + 1) * sizeof(*u->part));
		memset(u->part + u->nparts, 0, (number + 1 - u->nparts) * sizeof(*u->part));
		u->nparts = number + 1;
	}
	struct part *p = &u->part[number];
	free(p->at);
	p->at = copy_of(body->at, body->len);
	p->len = body->len;
	snprintf(p->etag, sizeof(p->etag), "\"p%llu\"", (unsigned long long)++m->made);
	atomic_fetch_add(&m->received, body->len);
}

static int mem_part(struct sf_store *s, const struct sf_put_to *to, const char *id, uint32_t number,
                    const struct sf_put_body *body, char **ret_etag, struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	struct sf_put_mem_upload **u;
	bool late;
	int r = 0;

	body_begins(m);
	int failed = asked(s, SF_PUT_MEM_PART, to, number, &late, err);
	pthread_mutex_lock(&m->m);
	u = upload_locked((struct store *)s, to, id);
	if (failed < 0 && !late)
		r = failed;
	else if (!u)
		r = sf_fail(failed < 0 ? NULL : err, -ENOENT, "no upload %s", id);
	else if (number >= s->ops->put->parts_max || body->len > s->ops->put->part_max ||
	         !body->len)
		r = sf_fail(failed < 0 ? NULL : err, -EINVAL, "part %u of %zu bytes", number,
		            body->len);
	if (r >= 0) {
		set_part_locked(m, *u, number, body);
		if (failed >= 0)
			*ret_etag = strdup((*u)->part[number].etag);
	}
	pthread_mutex_unlock(&m->m);
	atomic_fetch_sub(&m->bodies, 1);
	return failed < 0 ? failed : r;
}

static void free_upload(struct sf_put_mem_upload *u)
{
	for (uint32_t i = 0; i < u->nparts; i++)
		free(u->part[i].at);
	free(u->part);
	free(u->name);
	free(u->id);
	free(u);
}

static int check_parts(const struct sf_store *s, const struct sf_put_mem_upload *u,
                       const char *const *etag, uint32_t n, size_t *ret_len, struct sf_error *err)
{
	size_t len = 0;

	if (n != u->nparts || !n)
		return sf_fail(err, -EINVAL, "%u parts came, %u are named", u->nparts, n);
	for (uint32_t i = 0; i < n; i++) {
		if (!etag[i] || strcmp(etag[i], u->part[i].etag) != 0)
			return sf_fail(err, -EINVAL, "part %u is '%s', not '%s'", i,
			               u->part[i].etag, etag[i] ? etag[i] : "");
		if (i + 1 < n && u->part[i].len < s->ops->put->part_min)
			return sf_fail(err, -EINVAL, "part %u has only %zu bytes", i,
			               u->part[i].len);
		len += u->part[i].len;
	}
	*ret_len = len;
	return 0;
}

static void join_locked(struct sf_put_mem *m, struct sf_put_mem_upload **at, size_t len)
{
	struct sf_put_mem_upload *u = *at;
	uint8_t *all = malloc(len ? len : 1);

	for (uint32_t i = 0, off = 0; i < u->nparts; off += (uint32_t)u->part[i++].len)
		memcpy(all + off, u->part[i].at, u->part[i].len);
	set_locked(m, u->name, all, len);
	*at = u->next;
	free_upload(u);
}

static int mem_finish(struct sf_store *s, const struct sf_put_to *to, const char *id,
                      const char *const *etag, uint32_t n, char **ret_etag, struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	SF_FREE char *name = whole_name(s, to->name);
	struct sf_put_mem_upload **u;
	size_t len = 0;
	bool late;
	int failed = asked(s, SF_PUT_MEM_FINISH, to, 0, &late, err), r;
	struct sf_error *said = failed < 0 ? NULL : err;

	if (failed < 0 && !late)
		return failed;
	pthread_mutex_lock(&m->m);
	u = upload_locked((struct store *)s, to, id);
	r = u ? taken_locked(m, to, name, said) : sf_fail(said, -ENOENT, "no upload %s", id);
	if (r >= 0)
		r = check_parts(s, *u, etag, n, &len, said);
	if (r >= 0) {
		join_locked(m, u, len);
		if (failed >= 0)
			r = etag_locked(m, name, ret_etag, err);
	}
	pthread_mutex_unlock(&m->m);
	return failed < 0 ? failed : r;
}

static int mem_abort(struct sf_store *s, const struct sf_put_to *to, const char *id,
                     struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	struct sf_put_mem_upload **at, *u = NULL;
	bool late;
	int r = asked(s, SF_PUT_MEM_ABORT, to, 0, &late, err);

	if (r < 0 && !late)
		return r;
	pthread_mutex_lock(&m->m);
	at = upload_locked((struct store *)s, to, id);
	if (at) {
		u = *at;
		*at = u->next;
		free_upload(u);
	}
	pthread_mutex_unlock(&m->m);
	return r < 0 ? r : u ? 0 : sf_fail(err, -ENOENT, "no upload %s", id);
}

static int mem_remove(struct sf_store *s, const struct sf_put_to *to, struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	SF_FREE char *name = whole_name(s, to->name);
	bool late;
	int r = asked(s, SF_PUT_MEM_REMOVE, to, 0, &late, err);

	if (r < 0 && !late)
		return r;
	bool had = sf_put_mem_remove(m, name);
	return r < 0 ? r : had ? 0 : sf_fail(err, -ENOENT, "there is no such object");
}

/* Without the lock while @each is called: it asks. */
static int mem_unfinished(struct sf_store *s, const struct sf_put_to *to,
                          int (*each)(void *arg, const char *name, const char *id), void *arg,
                          struct sf_error *err)
{
	struct store *st = (struct store *)s;
	struct sf_put_mem *m = st->m;
	SF_FREE char *prefix = whole_name(s, to->name);
	size_t n = 0, cut = strlen(st->prefix);
	char **pair = NULL;
	bool late;
	int r = asked(s, SF_PUT_MEM_UNFINISHED, to, 0, &late, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&m->m);
	for (struct sf_put_mem_upload *u = m->upload; u; u = u->next) {
		if (strncmp(u->name, prefix, strlen(prefix)) != 0)
			continue;
		pair = realloc(pair, (n + 2) * sizeof(*pair));
		pair[n++] = strdup(u->name + cut);
		pair[n++] = strdup(u->id);
	}
	pthread_mutex_unlock(&m->m);
	for (size_t i = 0; i < n; i += 2) {
		r = r < 0 ? r : each(arg, pair[i], pair[i + 1]);
		free(pair[i]);
		free(pair[i + 1]);
	}
	free(pair);
	return r < 0 ? sf_fail(err, r, "what was told of unfinished uploads failed") : 0;
}

/* ---- what is read ---- */

struct source {
	struct sf_source s;
	uint8_t *at; /* of its own: what was opened stays what it was */
	char *name, *etag;
};

static int source_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                      uint64_t len, struct sf_error *err)
{
	const uint8_t *from = ((struct source *)src)->at + off;

	(void)len, (void)err;
	for (int i = 0; i < niov; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	return 0;
}

static void read_task(struct sf_task *task)
{
	struct sf_io_req *req = sf_container_of(task, struct sf_io_req, task);

	sf_io_req_end(req,
	              source_try(req->src, req->off, req->iov, req->niov, req->len, &req->err));
}

static void source_submit(struct sf_source *src, struct sf_io_req *req)
{
	req->task.run = read_task;
	sf_thread_pool_submit(src->io->pool, &req->task);
}

static int source_check(struct sf_source *src, struct sf_error *err)
{
	(void)src, (void)err;
	return 0;
}

static void source_free(struct sf_source *src)
{
	struct source *s = (struct source *)src;

	free(s->at);
	free(s->name);
	free(s->etag);
	free(s);
}

static const struct sf_source_ops source_ops = { .try_read = source_try,
	                                         .submit = source_submit,
	                                         .check = source_check,
	                                         .free = source_free,
	                                         .on_pool = true };

static int mem_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                    struct sf_source **ret, struct sf_error *err)
{
	struct sf_put_mem *m = ((struct store *)s)->m;
	SF_FREE char *whole = whole_name(s, name);
	struct source *src = NULL;

	pthread_mutex_lock(&m->m);
	struct sf_put_mem_object *o = find_locked(m, whole);
	if (o) {
		src = calloc(1, sizeof(*src));
		src->at = copy_of(o->at, o->len);
		src->name = strdup(name);
		src->etag = strdup(o->etag);
		src->s = (struct sf_source){ .ops = &source_ops,
			                     .refs = 1,
			                     .io = s->io,
			                     .name = src->name,
			                     .size = o->len,
			                     .version.etag = src->etag };
	}
	pthread_mutex_unlock(&m->m);
	if (!src)
		return sf_fail(err, -ENOENT, "'%s': no such object", name);
	int r = want ? sf_version_check(name, want->size, &want->version, src->s.size,
	                                &src->s.version, err)
	             : 0;
	if (r < 0)
		source_free(&src->s);
	else
		*ret = &src->s;
	return r;
}

struct listed {
	char *name, *etag;
	size_t len;
};

/* Without the lock while @each is called: it may open. */
static int mem_list(struct sf_store *s, const char *dir, unsigned depth,
                    int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                    struct sf_error *err)
{
	struct store *st = (struct store *)s;
	struct sf_put_mem *m = st->m;
	size_t cut = strlen(st->prefix), ndir = strlen(dir), n = 0;
	int r = 0;

	(void)err;
	pthread_mutex_lock(&m->m);
	struct listed *l = calloc(m->nobjects + 1, sizeof(*l));
	for (size_t i = 0; i < m->nobjects; i++) {
		const char *below = m->object[i].name + cut;
		unsigned level = 0;
		if (strncmp(m->object[i].name, st->prefix, cut) != 0 ||
		    (ndir && (strncmp(below, dir, ndir) != 0 || below[ndir] != '/')))
			continue;
		for (const char *p = below + (ndir ? ndir + 1 : 0); *p; p++)
			level += *p == '/';
		if (level <= depth)
			l[n++] = (struct listed){ strdup(below), strdup(m->object[i].etag),
				                  m->object[i].len };
	}
	pthread_mutex_unlock(&m->m);
	for (size_t i = 0; i < n; i++) {
		const struct sf_objinfo info = { .name = l[i].name,
			                         .size = l[i].len,
			                         .version.etag = l[i].etag };
		r = r < 0 ? r : each(arg, &info);
		free(l[i].name);
		free(l[i].etag);
	}
	free(l);
	return SF_MIN(r, 0);
}

/* ---- the store ---- */

static void mem_free(struct sf_store *s)
{
	free(((struct store *)s)->prefix);
	free(s->source);
	free(s);
}

struct sf_store *sf_put_mem_store(struct sf_put_mem *m, struct sf_io *io, const char *prefix)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->put = (struct sf_put_ops){ .part_min = m->part_min ? m->part_min : 1,
		                      .part_max = m->part_max ? m->part_max : UINT64_C(5) << 30,
		                      .parts_max = m->parts_max ? m->parts_max : 10000,
		                      .put = mem_put,
		                      .begin = mem_begin,
		                      .part = mem_part,
		                      .finish = mem_finish,
		                      .abort = mem_abort,
		                      .remove = mem_remove,
		                      .unfinished = mem_unfinished };
	s->ops = (struct sf_store_ops){
		.open = mem_open, .list = mem_list, .put = &s->put, .free = mem_free
	};
	s->s.ops = &s->ops;
	s->s.io = io;
	s->s.far = true;
	s->m = m;
	s->prefix = strdup(prefix);
	if (asprintf(&s->s.source, "mem://%s", prefix) < 0)
		s->s.source = NULL;
	return &s->s;
}

void sf_put_mem_init(struct sf_put_mem *m)
{
	pthread_mutex_init(&m->m, NULL);
	m->object = NULL;
	m->nobjects = 0;
	m->upload = NULL;
}

void sf_put_mem_release(struct sf_put_mem *m)
{
	while (m->nobjects)
		remove_locked(m, m->object[0].name);
	free(m->object);
	for (struct sf_put_mem_upload *u; (u = m->upload);) {
		m->upload = u->next;
		free_upload(u);
	}
	pthread_mutex_destroy(&m->m);
}
