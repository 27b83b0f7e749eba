#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "format/dcp/dcp_scan.h"
#include "format/dcp/dcp_scan_state.h"

/*
 * Values are numbers, containers are spent as soon as BUILD has made a record of them: after a
 * whole storage_data only columns are left. What is not understood is carried along as V_OPAQUE, or
 * the scanner gives up with DCP_UNKNOWN: it never guesses. Opcodes: CPython's Lib/pickletools.py;
 * those of protocols 0 and 1 are left to the value reader.
 */

#define RESERVE_FROM (UINT64_C(16) << 20)
#define RECORD_BYTES 130u /* a chunk and its item, of two dimensions, names fetched: at least */

/* Whole pages of @at in large ones, if the system gives them. */
static void large_pages(void *at, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	const uintptr_t page = 4096, from = ((uintptr_t)at + page - 1) & ~(page - 1),
			to = ((uintptr_t)at + bytes) & ~(page - 1);

	if (at && from < to)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
	(void)at;
	(void)bytes;
#endif
}

/* Columns of a large file at once: grown bit by bit they would be moved, and their page faults
 * are a sixth of the time. Untouched memory costs nothing, and not getting it is no error. */
static void reserve_columns(struct dcp_scan *s)
{
	const size_t chunks = (size_t)(s->size / RECORD_BYTES);
	struct dcp_meta *m = s->m;

	if (s->size < RESERVE_FROM)
		return;
	if (dcp_items_reserve(&m->item, chunks) >= 0)
		large_pages(m->item.at, m->item.cap * sizeof(*m->item.at));
	if (dcp_u32s_reserve(&m->coord, 4 * chunks) >= 0)
		large_pages(m->coord.at, m->coord.cap * sizeof(*m->coord.at));
}

static int run(struct dcp_scan *s)
{
	static const char *const words[W_NWORDS] = { "offsets",
		                                     "sizes",
		                                     "fqn",
		                                     "index",
		                                     "offset",
		                                     "relative_path",
		                                     "length",
		                                     "transform_descriptors",
		                                     "properties",
		                                     "size",
		                                     "chunks",
		                                     "state_dict_metadata",
		                                     "planner_data",
		                                     "storage_data",
		                                     "storage_meta",
		                                     "version",
		                                     "modules",
		                                     "dtype",
		                                     "mcore_data",
		                                     "nd_reformulated_orig_global_shape",
		                                     "all_local_plans" };
	uint32_t str;
	int r;

	s->m->facts.version = DCP_NONE;
	s->m->room = s->src->size;
	for (uint32_t i = 0; i < W_NWORDS; i++)
		if (dcp_meta_str(s->m, words[i], strlen(words[i]), &str) < 0)
			return dcp_scan_no_memory(s);
	s->buf = malloc(DCP_WINDOW);
	/* coords: so that there is a place to point at where nothing has dimensions */
	if (!s->buf || dcp_values_push(&s->word, 0) < 0 || dcp_u64s_reserve(&s->coords, 1) < 0)
		return dcp_scan_no_memory(s);
	s->cap = DCP_WINDOW;
	s->size = s->src->size;
	reserve_columns(s);
	s->op = s->p = s->end = s->soft = s->buf;
	r = dcp_scan_steps(s);
	if (r == DCP_ENOUGH)
		r = dcp_scan_enough(s);
	if (r == 0)
		r = dcp_scan_root(s);
	return r == 0 ? dcp_scan_megatron(s) : r;
}

static void release(struct dcp_scan *s)
{
	for (size_t i = 0; i < s->cont.n; i++)
		free(s->cont.at[i].at);
	free(s->buf);
	free(s->next_str);
	dcp_values_release(&s->stack);
	dcp_values_release(&s->word);
	dcp_values_release(&s->memo);
	dcp_u32s_release(&s->mark);
	dcp_segs_release(&s->seg);
	dcp_memo_strs_release(&s->memo_str);
	dcp_memo_sizes_release(&s->memo_size);
	dcp_globals_release(&s->global);
	dcp_conts_release(&s->cont);
	dcp_objs_release(&s->obj);
	dcp_recs_release(&s->rec);
	dcp_u64s_release(&s->coords);
}

/* First lean; when something fetches what was passed over, again with more of it kept, then with
 * nothing passed over. */
int dcp_scan(struct dcp_meta *m, struct sf_source *src, const char *name, struct sf_error *err)
{
	int r = DCP_AGAIN;

	for (int again = 0; again < 3 && r == DCP_AGAIN; again++) {
		struct dcp_scan s = { .m = m,
			              .src = src,
			              .name = name,
			              .err = err,
			              .runs = again < 2,
			              .keep_sizes = again == 1,
			              .items_in = DCP_NONE,
			              .last_fqn = DCP_NONE };
		memset(s.known, 0xff, sizeof(s.known));
		memset(&s.known_size, 0xff, sizeof(s.known_size));
		memset(s.word_ref, 0xff, sizeof(s.word_ref));
		memset(s.class_ref, 0xff, sizeof(s.class_ref));
		dcp_meta_release(m);
		r = run(&s);
		release(&s);
	}
	return r < 0 ? r : r != 0;
}
