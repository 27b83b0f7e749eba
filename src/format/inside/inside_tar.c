#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/inside/inside_priv.h"
#include "parse/tar.h"
#include "store/source_wait.h"

/*
 * A tar has no directory: each header says where the next one is. So a window is read from each
 * header on, which doubles as long as the next header is in it or soon behind it; and of many tars
 * one is read of each, side by side.
 */
#define NAMES_MAX (UINT64_C(1) << 30)  /* bytes of names, of all tars */
#define AT_ONCE (UINT64_C(64) << 20)   /* bytes of all windows */
#define NEAR_FIRST (UINT64_C(4) << 10) /* a window at first: of this machine … */
#define FAR_FIRST (UINT64_C(64) << 10) /* … of another one, where a round trip costs more */
#define WINDOW_MOST (UINT64_C(8) << 20)

struct one_tar {
	struct sf_tar tar;
	struct sf_source *src;
	uint32_t from;
	uint64_t window, asked_at, asked; /* bytes on their way, from there on */
	struct sf_waiting *waiting;
	bool ended;
};

static void ask(struct one_tar *t, uint64_t most)
{
	const uint64_t left = t->tar.at < t->tar.len ? t->tar.len - t->tar.at : 0;

	t->asked_at = t->tar.at;
	t->asked = SF_MIN(SF_MAX(SF_MIN(t->window, most), t->tar.want), left);
	t->waiting = sf_waiting_begin(t->src, t->asked_at, t->asked, SF_FETCH_METADATA);
}

static int take(struct inside_build *b, struct one_tar *t, uint64_t first)
{
	int r = t->waiting ? sf_waiting_end(t->waiting, b->inner->io->timeout_ms, b->err)
	                   : inside_no_memory(b);

	if (r >= 0)
		r = sf_tar_take(&t->tar, sf_waiting_bytes(t->waiting), (size_t)t->asked, b->err);
	t->ended = r == 0;
	if (t->waiting)
		sf_waiting_unref(t->waiting);
	t->waiting = NULL;
	if (r < 0)
		return sf_fail_ctx(b->err, r, "'%s'", b->from.at[t->from].info.name);
	if (t->tar.at - t->asked_at <= 2 * t->asked)
		t->window = SF_MIN(t->window * 2, WINDOW_MOST);
	else
		t->window = first;
	return 0;
}

/* All headers of all of them, in rounds. */
static int read_headers(struct inside_build *b, struct one_tar *t, size_t n)
{
	const uint64_t first = b->inner->far ? FAR_FIRST : NEAR_FIRST, most = AT_ONCE / n;
	size_t left = n;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		t[i].window = first;
	while (left && r >= 0) {
		left = 0;
		for (size_t i = 0; i < n; i++)
			if (!t[i].ended)
				ask(&t[i], most);
		for (size_t i = 0; i < n; i++) {
			if (t[i].ended)
				continue;
			if (r >= 0)
				r = take(b, &t[i], first);
			else if (t[i].waiting) { /* one failed: what is under way is left */
				(void)sf_waiting_end(t[i].waiting, 1, NULL);
				sf_waiting_unref(t[i].waiting);
				t[i].waiting = NULL;
			}
			left += !t[i].ended;
		}
	}
	return r;
}

static bool has(const struct sf_tar *t, const char *name)
{
	size_t lo = 0, end = t->member.n;

	while (lo < end) {
		const size_t mid = lo + (end - lo) / 2;
		const int c = strcmp(t->member.at[mid].name, name);
		if (c == 0)
			return true;
		if (c < 0)
			lo = mid + 1;
		else
			end = mid;
	}
	return false;
}

/* What torch.save wrote before 0.1.10 is a tar, too, whose members are no files of a checkpoint. */
static int refuse_torch(struct inside_build *b, const struct one_tar *t)
{
	if (!has(&t->tar, "storages") || !has(&t->tar, "tensors") || !has(&t->tar, "pickle"))
		return 0;
	return sf_fail(b->err, -ENOTSUP,
	               "'%s' is a file of torch.save of PyTorch 0.1.9 or older (a tar of pickle, "
	               "tensors, storages): not supported; torch.load and torch.save it again",
	               b->from.at[t->from].info.name);
}

static int add_members(struct inside_build *b, const struct one_tar *t)
{
	int r = refuse_torch(b, t);

	for (size_t i = 0; i < t->tar.member.n && r >= 0; i++) {
		const struct sf_tar_member *m = &t->tar.member.at[i];
		r = inside_add(b, m->name, t->from, m->off, m->size);
	}
	return r;
}

int inside_add_tars(struct inside_build *b, struct sf_source *const *src, const uint32_t *from,
                    size_t n)
{
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { .limit = NAMES_MAX };
	struct one_tar *t = calloc(n ? n : 1, sizeof(*t));
	int r = t ? 0 : inside_no_memory(b);

	for (size_t i = 0; i < n && r >= 0; i++) {
		sf_tar_init(&t[i].tar, src[i]->size, &arena);
		t[i].src = src[i];
		t[i].from = from[i];
	}
	if (r >= 0 && n)
		r = read_headers(b, t, n);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = add_members(b, &t[i]);
	for (size_t i = 0; t && i < n; i++)
		sf_tar_release(&t[i].tar);
	free(t);
	return r;
}
