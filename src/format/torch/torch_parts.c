#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "format/torch/torch_parts.h"
#include "store/source.h"

#define AT_ONCE 16 /* threads: each waits for one file */

struct opening {
	struct sf_store *store;
	struct sf_torch_part *at;
	size_t n;
	uint64_t value_max;
	_Atomic size_t next;
	_Atomic int over; /* what no further part is begun after */
};

struct opener {
	struct sf_task task;
	struct opening *o;
};

static void open_part(struct opening *o, struct sf_torch_part *p)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct sf_torch_source from = { NULL, 0, SF_FETCH_METADATA };
	const struct sf_torch_options opt = { .part_max = o->value_max };
	int r = o->store->ops->open(o->store, p->file->name, p->file, &src, &p->err);

	if (r >= 0) {
		const struct sf_torch_input in = { src->size, NULL, sf_torch_source_read, &from };
		from.src = src;
		p->len = src->size;
		r = sf_torch_open(&in, &opt, &p->arena, &p->archive, &p->err);
		if (r < 0)
			sf_fail_ctx(&p->err, r, "'%s'", p->file->name);
	}
	p->r = r < 0 ? r : 0;
}

static void open_some(struct sf_task *task)
{
	struct opening *o = ((struct opener *)task)->o;
	size_t i;

	while ((i = atomic_fetch_add(&o->next, 1)) < o->n) {
		struct sf_torch_part *p = &o->at[i];
		int over = o->over;
		if (over) {
			p->r = sf_fail(&p->err, over,
			               "'%s': not begun: an earlier file did not come",
			               p->file->name);
			continue;
		}
		open_part(o, p);
		if (p->r == -ETIMEDOUT || p->r == -ECANCELED)
			o->over = p->r;
	}
}

int sf_torch_parts_open(struct sf_store *store, struct sf_torch_part *at, size_t n,
                        uint64_t value_max, struct sf_error *err)
{
	struct opening o = { .store = store, .at = at, .n = n, .value_max = value_max };
	struct opener opener[AT_ONCE];
	size_t threads = SF_MIN(n, AT_ONCE);
	struct sf_thread_pool *pool = NULL;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sf_objinfo *file = at[i].file;
		at[i] = (struct sf_torch_part){ .file = file,
			                        .err = SF_ERROR_INIT,
			                        .place = SF_NONE };
	}
	if (threads > 1)
		r = sf_thread_pool_new((unsigned)threads, &pool, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < threads; i++) {
		opener[i] = (struct opener){ .task.run = open_some, .o = &o };
		if (pool)
			sf_thread_pool_submit(pool, &opener[i].task);
		else
			open_some(&opener[i].task);
	}
	sf_thread_pool_free(pool); /* when all have ended */
	return 0;
}

void sf_torch_parts_release(struct sf_torch_part *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sf_arena_release(&at[i].arena);
}

int sf_torch_part_place(struct sf_torch_part *part, struct sf_ckpt_builder *b, struct sf_error *err)
{
	if (part->place != SF_NONE)
		return 0;
	if (part->archive.big_endian) {
		uint32_t file;
		int r = sf_ckpt_builder_file(b, part->file->name, strlen(part->file->name), &file,
		                             err);
		return r < 0 ? r
		             : sf_ckpt_builder_place_unreadable(
				       b, file, SF_ITEM_RAW,
				       "tensors were written on a big-endian machine", &part->place,
				       err);
	}
	return sf_ckpt_builder_place(b, part->file->name, strlen(part->file->name), SF_ITEM_RAW,
	                             SF_CODEC_NONE, &part->place, err);
}
