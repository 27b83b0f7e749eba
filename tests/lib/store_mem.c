#include "config.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/test_stores.h"

/* The bytes are borrowed from whoever made the store; tests change them and the sizes under it. */
struct mem_store {
	struct sf_store s;
	const struct sf_mem_object *at;
	size_t n;
};

struct mem_source {
	struct sf_source s;
	const struct sf_mem_object *o;
};

static void copy_out(const uint8_t *from, const struct iovec *iov, int niov)
{
	for (int i = 0; i < niov; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
}

static int mem_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                   uint64_t len, struct sf_error *err)
{
	const struct sf_mem_object *o = ((struct mem_source *)src)->o;

	copy_out((const uint8_t *)o->at + off, iov, niov);
	return 0;
}

static int mem_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	ret->at = (const uint8_t *)((struct mem_source *)src)->o->at + off;
	return 0;
}

/* As a pool task, like a local file, so that tests over memory run the same paths. */
static void read_task(struct sf_task *task)
{
	struct sf_io_req *req = sf_container_of(task, struct sf_io_req, task);

	sf_io_req_end(req, mem_try(req->src, req->off, req->iov, req->niov, req->len, &req->err));
}

static void mem_submit(struct sf_source *src, struct sf_io_req *req)
{
	req->task.run = read_task;
	sf_thread_pool_submit(src->io->pool, &req->task);
}

static int mem_check(struct sf_source *src, struct sf_error *err)
{
	const struct sf_mem_object *o = ((struct mem_source *)src)->o;
	struct sf_version none = { 0 };

	return sf_version_check(o->name, src->size, &none, o->len, &none, err);
}

static void mem_source_free(struct sf_source *src)
{
	free(src);
}

static const struct sf_source_ops source_ops = {
	.try_read = mem_try,
	.lend = mem_lend,
	.submit = mem_submit,
	.check = mem_check,
	.free = mem_source_free,
	.on_pool = true,
};

static int mem_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                    struct sf_source **ret, struct sf_error *err)
{
	struct mem_store *m = (struct mem_store *)s;
	struct sf_version none = { 0 };
	struct mem_source *src;
	size_t i = 0;
	int r;

	while (i < m->n && strcmp(m->at[i].name, name) != 0)
		i++;
	if (i == m->n)
		return sf_fail(err, -ENOENT, "'%s': no such object", name);
	if (want) {
		r = sf_version_check(name, want->size, &want->version, m->at[i].len, &none, err);
		if (r < 0)
			return r;
	}
	src = calloc(1, sizeof(*src));
	if (!src)
		return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	src->o = &m->at[i];
	src->s.ops = &source_ops;
	src->s.refs = 1;
	src->s.io = s->io;
	src->s.name = m->at[i].name;
	src->s.size = m->at[i].len;
	*ret = &src->s;
	return 0;
}

static int mem_list(struct sf_store *s, const char *dir, unsigned depth,
                    int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                    struct sf_error *err)
{
	struct mem_store *m = (struct mem_store *)s;
	size_t n = strlen(dir);
	int r = 0;

	for (size_t i = 0; i < m->n && r >= 0; i++) {
		const char *below = m->at[i].name;
		unsigned level = 0;
		if (n && (strncmp(below, dir, n) != 0 || below[n] != '/'))
			continue;
		for (below += n ? n + 1 : 0; *below; below++)
			level += *below == '/';
		if (level <= depth)
			r = each(arg, &(struct sf_objinfo){ .name = m->at[i].name,
			                                    .size = m->at[i].len });
	}
	return r;
}

static void mem_free(struct sf_store *s)
{
	free(s->source);
	free(s);
}

static const struct sf_store_ops store_ops = { .open = mem_open,
	                                       .list = mem_list,
	                                       .free = mem_free };

int sf_store_mem(struct sf_io *io, const struct sf_mem_object *objects, size_t n,
                 struct sf_store **ret, struct sf_error *err)
{
	struct mem_store *m = calloc(1, sizeof(*m));

	if (m)
		m->s.source = strdup("memory");
	if (!m || !m->s.source) {
		free(m);
		return sf_fail(err, -ENOMEM, "memory store: no memory");
	}
	m->s.ops = &store_ops;
	m->s.io = io;
	m->at = objects;
	m->n = n;
	*ret = &m->s;
	return 0;
}
