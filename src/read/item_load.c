#include "config.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "read/item_cache_priv.h"
#include "read/made.h"

/* what a header of so many bytes takes, with the text and what it is made of */
#define BLOB_TIMES 5

/* ---- memory ---- */

uint64_t sf_item_limit(const struct sf_cache_entry *e)
{
	return sf_budget_limit(e->cache->io->budget);
}

uint64_t sf_item_claim(const struct sf_cache_entry *e)
{
	uint64_t first = SF_MAX(e->want.ahead, SF_BLOB_HEAD);

	if (e->want.kind != SF_CACHED_BLOB)
		return sf_item_decode_claim(e);
	return SF_MIN(first - SF_BLOB_HEAD + SF_BLOB_HEAD * BLOB_TIMES, sf_item_limit(e));
}

/* Room for @len bytes of input. */
int sf_item_make_in(struct sf_cache_entry *e, uint64_t len)
{
	uint8_t *in;

	if (len <= e->in_len)
		return 0;
	if (!sf_charge_use(&e->charge, len - e->in_len))
		return -ENOMEM;
	in = realloc(e->in, len);
	if (!in) {
		sf_charge_unuse(&e->charge, len - e->in_len);
		return sf_fail(&e->req.err, -ENOMEM, "'%s': no memory for %llu bytes",
		               e->want.src->name, (unsigned long long)len);
	}
	e->in = in;
	e->in_len = len;
	return 0;
}

/* It is there: what it holds from now on is counted, the rest of its charge goes back. */
static void keep(struct sf_cache_entry *e)
{
	sf_item_drop_load(e);
	e->held = e->pages.len + e->arena.used + e->pub.names.cap * 8 + sizeof(*e);
	if (e->want.kind == SF_CACHED_MADE)
		e->held += e->out.cap;
	if (e->begun)
		e->held += e->pub.len;
	e->out.charge = e->arena.charge = NULL;
	sf_charge_end(&e->charge, e->held);
	e->loaded(e, 0);
}

static void fail(struct sf_cache_entry *e, int r)
{
	sf_item_drop(e);
	sf_charge_end(&e->charge, 0);
	e->loaded(e, r);
}

/* It had not enough memory: anew with more, or there is no more. */
void sf_item_want_more(struct sf_cache_entry *e, uint64_t bytes)
{
	sf_item_drop(e);
	sf_charge_end(&e->charge, 0);
	e->again(e, bytes);
}

void sf_item_next(struct sf_cache_entry *e, void *to, uint64_t len)
{
	e->iov = (struct iovec){ to, len };
	e->req.off = e->want.off + e->pos;
	e->req.len = len;
	e->req.iov = &e->iov;
	e->req.niov = 1;
}

/* ---- headers of blobs ---- */

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_st_tensor *t = &((struct sf_cached *)arg)->st.at[value];

	return t->name_len == len && memcmp(t->name, key, len) == 0;
}

const struct sf_st_tensor *sf_cached_find(const struct sf_cached *item, const char *name,
                                          size_t len)
{
	uint32_t i = sf_map_get(&item->names, name, len, same_name, (void *)item);

	return i == SF_MAP_NONE ? NULL : &item->st.at[i];
}

static int blob_names(struct sf_cache_entry *e)
{
	struct sf_cached *pub = &e->pub;
	int failed = sf_map_reserve(&pub->names, pub->st.n) < 0 ? -ENOMEM : 0;

	for (size_t i = 0; i < pub->st.n && !failed; i++)
		sf_map_add(&pub->names, pub->st.at[i].name, pub->st.at[i].name_len, (uint32_t)i,
		           same_name, pub, &failed);
	return failed ? sf_fail(&e->req.err, failed, "'%s': no memory for %zu names",
	                        e->want.src->name, pub->st.n)
	              : 0;
}

/* Bytes from where the blob begins to the end of what it lies in. */
static uint64_t blob_room(const struct sf_cache_entry *e)
{
	const struct sf_source *src = e->want.src;

	return SF_MIN(e->want.len, src->size - SF_MIN(e->want.off, src->size));
}

/* What came with the header stays with it. */
static void keep_begun(struct sf_cache_entry *e)
{
	if (!e->want.ahead || e->in_len <= e->pub.st.data_off)
		return;
	e->pub.at = e->begun = e->in;
	e->pub.len = e->in_len;
	e->in = NULL;
	e->in_len = 0; /* its charge goes with it */
}

/* The beginning of a blob's header, or all of it, is there. */
static int blob_head(struct sf_cache_entry *e)
{
	struct sf_error *err = &e->req.err;
	struct sf_source *src = e->want.src;
	uint64_t len = sf_le64(e->in), room = blob_room(e) - 8;
	int r;

	e->pos += e->req.len;
	if (len > room || len > SF_ST_HEADER_MAX)
		return sf_fail(err, len > room ? -EBADMSG : -E2BIG,
		               "'%s': safetensors header at %llu says %llu bytes, there are "
		               "%llu, the limit is %d",
		               src->name, (unsigned long long)e->want.off, (unsigned long long)len,
		               (unsigned long long)room, SF_ST_HEADER_MAX);
	if (e->pos < len + 8) {
		r = sf_item_make_in(e, len + 8);
		if (r < 0)
			return r;
		sf_item_next(e, e->in + e->pos, len + 8 - e->pos);
		return SF_ITEM_MORE;
	}
	r = sf_st_parse(e->in + 8, len, &e->arena, &e->pub.st, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': safetensors header at %llu", src->name,
		                   (unsigned long long)e->want.off);
	r = blob_names(e);
	if (r >= 0)
		keep_begun(e);
	return r;
}

static int begin_blob(struct sf_cache_entry *e, uint64_t *first)
{
	const struct sf_source *src = e->want.src;

	*first = SF_MIN(SF_MAX(SF_BLOB_HEAD, e->want.ahead), blob_room(e));
	e->arena.charge = &e->charge;
	if (*first < 8)
		return sf_fail(&e->req.err, -EBADMSG,
		               "'%s': a safetensors blob at %llu, but there are %llu bytes",
		               src->name, (unsigned long long)e->want.off,
		               (unsigned long long)*first);
	return sf_item_make_in(e, *first);
}

/* A blob whose charge refused it something: anew with more, or it is too large. */
static void refused(struct sf_cache_entry *e, int r)
{
	uint64_t more = sf_charge_next(&e->charge), len = e->in_len >= 8 ? sf_le64(e->in) : 0;

	if (more)
		sf_item_want_more(e, SF_MAX(more, SF_MIN(len * BLOB_TIMES, sf_item_limit(e))));
	else if (e->charge.refused)
		fail(e,
		     sf_fail(&e->req.err, -E2BIG,
		             "'%s': the safetensors header of %llu bytes at %llu takes %llu bytes "
		             "of memory or more, --memory is %llu",
		             e->want.src->name, (unsigned long long)len,
		             (unsigned long long)e->want.off, (unsigned long long)e->charge.refused,
		             (unsigned long long)sf_item_limit(e)));
	else
		fail(e, r);
}

/* ---- what a view makes ---- */

static void make_task(struct sf_task *task)
{
	struct sf_cache_entry *e = sf_container_of(task, struct sf_cache_entry, task);
	struct sf_budget *b = e->cache->io->budget;
	struct sf_made *m = e->want.made;
	uint64_t bytes = m->guess;
	int r;

	do {
		sf_charge_begin(&e->charge, b, SF_BUDGET_MADE, bytes);
		e->began_ns = sf_now_ns();
		e->req.err.msg[0] = '\0';
		e->out.charge = &e->charge;
		r = m->ops->make(m, &e->out, &e->req.err);
		if (r >= 0 && sf_buf_check(&e->out) < 0)
			r = sf_fail(&e->req.err, sf_buf_check(&e->out), "no memory for %zu bytes",
			            e->out.len);
		bytes = sf_charge_next(&e->charge); /* refused, whatever was made of that */
		if (!bytes)
			break;
		sf_buf_release(&e->out);
		sf_charge_end(&e->charge, 0);
	} while (true);
	if (e->charge.refused)
		r = sf_fail(&e->req.err, -E2BIG,
		            "%s takes %llu bytes of memory or more, --memory is %llu", m->what,
		            (unsigned long long)e->charge.refused,
		            (unsigned long long)sf_item_limit(e));
	if (r < 0) {
		fail(e, r);
		return;
	}
	uint8_t *fit = realloc(e->out.at, e->out.len ? e->out.len : 1);
	if (fit) {
		e->out.at = fit;
		e->out.cap = e->out.len;
	}
	e->pub.at = e->out.at;
	e->pub.len = e->out.len;
	keep(e);
}

/* ---- all ---- */

static int came(struct sf_cache_entry *e)
{
	bool ending;

	pthread_mutex_lock(&e->cache->locked.m);
	ending = e->want.owner->ending;
	pthread_mutex_unlock(&e->cache->locked.m);
	if (ending)
		return sf_fail(&e->req.err, -ECANCELED, "'%s': canceled", e->want.src->name);
	return e->want.kind == SF_CACHED_DECODED ? sf_item_decode_slice(e) : blob_head(e);
}

/* Asks for what comes next, as long as that ends at once, and for more when it is there. */
static void go_on(struct sf_cache_entry *e, int r)
{
	while (r == SF_ITEM_MORE) {
		if (!sf_source_submit(e->want.src, &e->req))
			return; /* its end goes on */
		r = e->req.r < 0 ? e->req.r : came(e);
	}
	if (r == 0)
		keep(e);
	else if (r < 0 && e->want.kind == SF_CACHED_BLOB)
		refused(e, r);
	else if (r < 0)
		fail(e, r);
}

static void fetched(struct sf_io_req *req, int r)
{
	struct sf_cache_entry *e = sf_container_of(req, struct sf_cache_entry, req);

	go_on(e, r < 0 ? r : came(e));
}

void sf_item_load(struct sf_cache_entry *e)
{
	uint64_t first = 0;
	int r;

	e->began_ns = sf_now_ns();
	if (e->want.kind == SF_CACHED_MADE) {
		e->task.run = make_task;
		sf_thread_pool_submit(e->cache->io->make, &e->task);
		return;
	}
	e->req.kind = e->want.fetch;
	e->req.done = fetched;
	r = e->want.kind == SF_CACHED_DECODED ? sf_item_decode_begin(e, &first)
	                                      : begin_blob(e, &first);
	if (r >= 0) {
		sf_item_next(e, e->in, first);
		r = SF_ITEM_MORE;
	}
	go_on(e, r);
}
