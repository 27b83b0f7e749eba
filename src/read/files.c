#include "config.h"

#include <stddef.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "ckpt/place.h"
#include "read/op.h"

/* ---- the descriptor budget ---- */

static void granted(struct sf_fd_wait *w)
{
	struct sf_op *op = sf_container_of(w, struct sf_op, fds);

	op->held = w->n;
	sf_op_go_on_later(op); /* its end gives them to others again: that must not nest */
}

int sf_op_take_files(struct sf_op *op)
{
	struct sf_fd_budget *budget = op->r->io->fd_budget;
	uint32_t n = (uint32_t)op->sources.n;

	if (op->held || !sf_fd_budget_counts(budget))
		return 0;
	if (!op->may_wait) {
		if (!sf_fd_budget_take(budget, n))
			return -EAGAIN;
	} else {
		op->fds = (struct sf_fd_wait){ .n = n, .granted = granted };
		if (!sf_fd_budget_queue(budget, &op->fds))
			return SF_STEP_WAITS;
	}
	op->held = n;
	return 0;
}

void sf_op_give_files(struct sf_op *op)
{
	uint32_t n = op->held;

	op->held = 0;
	if (n)
		sf_fd_budget_give(op->r->io->fd_budget, n);
}

/* ---- opening ---- */

static const struct sf_file *file_of(const struct sf_ckpt *ckpt, uint32_t key)
{
	return key < ckpt->nfiles ? &ckpt->file[key] : &ckpt->listing[key - ckpt->nfiles];
}

static int open_source(struct sf_op *op, uint32_t i, struct sf_error *err)
{
	struct sf_reader *rd = op->r;
	struct sf_op_source *s = &op->sources.at[i];
	const struct sf_file *f = file_of(rd->ckpt, s->key);
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	int r = sf_file_open(rd->store, f, &src, err);

	if (r < 0)
		return r;
	if (sf_source_hints(src)->ahead >
	    atomic_load_explicit(&rd->ahead,
	                         memory_order_relaxed)) /* all of a store say the same */
		atomic_store_explicit(&rd->ahead, sf_source_hints(src)->ahead,
		                      memory_order_relaxed);
	s->src = sf_open_files_put(rd->io->open_files, sf_open_key(rd->id, s->key), src);
	return 0;
}

static void open_task(struct sf_task *task)
{
	struct sf_op_open *o = sf_container_of(task, struct sf_op_open, task);
	struct sf_op *op = o->op;
	struct sf_error err = SF_ERROR_INIT;
	int r = open_source(op, o->source, &err);

	sf_op_completed(op, r, &err, op->sources.at[o->source].key);
}

int sf_op_open(struct sf_op *op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < op->sources.n; i++) {
		struct sf_op_source *s = &op->sources.at[i];
		if (s->src)
			continue;
		const struct sf_file *f = file_of(op->r->ckpt, s->key);
		s->src = sf_open_files_get(op->r->io->open_files, sf_open_key(op->r->id, s->key));
		if (s->src)
			continue;
		if (f->missing) {
			uint32_t k = 0;
			uint64_t off = 0;
			while (op->items.at[k].source != i)
				k++;
			sf_op_place(op, &op->items.at[k], &off);
			sf_fail(&op->err, -EIO, "item at %llu: file '%s' is missing",
			        (unsigned long long)off, f->name);
			return sf_op_fail_item(op, &op->items.at[k], -EIO);
		}
		if (!op->may_wait)
			return -EAGAIN; /* opening may wait, on a network file system for long */
		n++;
	}
	if (!n)
		return 0;
	op->opens = sf_alloc_array(n, sizeof(*op->opens));
	if (!op->opens)
		return sf_fail(&op->err, -ENOMEM, "no memory to open %u files", n);
	sf_op_async_begin(op);
	n = 0;
	/* a task writes its own source's place only; which were missing is told before any of them
	 * runs */
	for (uint32_t i = 0; i < op->sources.n; i++)
		if (!op->sources.at[i].src)
			op->opens[n++] = (struct sf_op_open){ .task = { .run = open_task },
				                              .op = op,
				                              .source = i };
	atomic_fetch_add_explicit(&op->pending, n, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++)
		sf_thread_pool_submit(op->r->io->pool, &op->opens[i].task);
	return sf_op_async_end(op);
}
