#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/rankfiles/rankfiles_set.h"

#define SETS_MAX 64 /* kinds of files, times world sizes */

/* ---- a name ---- */

/* The digits before @end are a number, and where they begin; NULL: there are none, or too many. */
static const char *number_before(const char *begin, const char *end, uint32_t *ret)
{
	const char *p = end;
	uint64_t n = 0;

	while (p > begin && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if (p == end || end - p > 9)
		return NULL;
	for (const char *q = p; q < end; q++)
		n = n * 10 + (uint64_t)(*q - '0');
	*ret = (uint32_t)n;
	return p;
}

/* Without @word at its end; NULL: it does not end so. */
static const char *cut(const char *begin, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - begin) >= n && memcmp(end - n, word, n) == 0 ? end - n : NULL;
}

bool rankfiles_name(const char *name, struct rankfiles_name *ret)
{
	const char *end = name + strlen(name), *at, *word;

	if (strchr(name, '/'))
		return false;
	at = cut(name, end, ".pt");
	if (!at)
		at = cut(name, end, ".bin");
	*ret = (struct rankfiles_name){ .kind = name };
	if (!at || !(at = number_before(name, at, &ret->rank)))
		return false;
	word = cut(name, at, "_rank_");
	if (word && (at = number_before(name, word, &ret->world)) &&
	    (at = cut(name, at, "_world_size_"))) {
		ret->kind_len = (size_t)(at - name);
		return at > name && ret->world > 0 && ret->world <= RANKFILES_WORLD_MAX;
	}
	if (strncmp(name, "pytorch_model_fsdp_0_rank", 25) != 0 || ret->rank >= RANKFILES_WORLD_MAX)
		return false;
	ret->world = 0;
	ret->kind = "model";
	ret->kind_len = 5;
	return true;
}

/* ---- sets ---- */

void rankfiles_release(struct rankfiles_sets *sets)
{
	for (size_t i = 0; i < sets->n; i++)
		free(sets->at[i].file);
	rankfiles_sets_release(sets);
}

/* model, then optim, then the others by name. */
static int compare_kinds(const char *a, size_t a_len, const char *b, size_t b_len)
{
	static const char *const first[] = { "model", "optim" };
	int c;

	for (size_t i = 0; i < SF_ARRAY_LEN(first); i++) {
		bool is_a = a_len == 5 && memcmp(a, first[i], 5) == 0,
		     is_b = b_len == 5 && memcmp(b, first[i], 5) == 0;
		if (is_a || is_b)
			return (int)is_b - (int)is_a;
	}
	c = memcmp(a, b, SF_MIN(a_len, b_len));
	return c ? c : a_len < b_len ? -1 : a_len > b_len;
}

static int by_kind(const void *a, const void *b)
{
	const struct rankfiles_set *s = a, *t = b;
	int c = compare_kinds(s->kind, s->kind_len, t->kind, t->kind_len);

	return c ? c : s->world < t->world ? -1 : s->world > t->world;
}

static struct rankfiles_set *set_of(struct rankfiles_sets *sets, const struct rankfiles_name *n)
{
	for (size_t i = sets->n; i-- > 0;) /* files of one set follow each other */
		if (sets->at[i].world == n->world &&
		    compare_kinds(sets->at[i].kind, sets->at[i].kind_len, n->kind, n->kind_len) ==
		            0)
			return &sets->at[i];
	return NULL;
}

/* What the names say alone: sets without their files. A name without a world size is of as many as its
 * ranks go. */
static int find_sets(const struct sf_objinfo *files, size_t n, struct rankfiles_sets *ret)
{
	struct rankfiles_name name;
	struct rankfiles_set *s;
	uint32_t unsaid = 0;

	for (size_t i = 0; i < n; i++)
		if (rankfiles_name(files[i].name, &name) && !name.world)
			unsaid = SF_MAX(unsaid, name.rank + 1);
	for (size_t i = 0; i < n; i++) {
		if (!rankfiles_name(files[i].name, &name))
			continue;
		name.world = name.world ? name.world : unsaid;
		if (set_of(ret, &name))
			continue;
		struct rankfiles_set set = { .kind = name.kind,
			                     .kind_len = name.kind_len,
			                     .world = name.world };
		if (ret->n == SETS_MAX)
			return -E2BIG;
		if (rankfiles_sets_push(ret, set) < 0)
			return -ENOMEM;
		s = &ret->at[ret->n - 1];
		s->file = calloc(s->world, sizeof(*s->file)); /* a million at most: of a name */
		if (!s->file)
			return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		if (!rankfiles_name(files[i].name, &name))
			continue;
		name.world = name.world ? name.world : unsaid;
		s = set_of(ret, &name);
		if (name.rank < s->world && !s->file[name.rank]) {
			s->file[name.rank] = &files[i];
			s->have++;
		}
	}
	for (size_t i = 0; i < ret->n; i++)
		while (ret->at[i].absent < ret->at[i].world && ret->at[i].file[ret->at[i].absent])
			ret->at[i].absent++;
	if (ret->n)
		qsort(ret->at, ret->n, sizeof(*ret->at), by_kind);
	return 0;
}

static const struct sf_objinfo *some_file(const struct rankfiles_set *s)
{
	for (uint32_t i = 0; i < s->world; i++)
		if (s->file[i])
			return s->file[i];
	return NULL;
}

static bool same_kind(const struct rankfiles_set *s, const struct rankfiles_set *t)
{
	return compare_kinds(s->kind, s->kind_len, t->kind, t->kind_len) == 0;
}

/* Of the sets of the first kind, the one that is whole, or the only one. */
static int choose(const struct rankfiles_sets *sets, const struct rankfiles_set **ret,
                  struct sf_error *err)
{
	const struct rankfiles_set *whole = NULL, *first = &sets->at[0];
	size_t n = 0, nwhole = 0;

	for (; n < sets->n && same_kind(first, &sets->at[n]); n++)
		if (sets->at[n].absent == sets->at[n].world) {
			whole = &sets->at[n];
			nwhole++;
		}
	if (n > 1 && nwhole != 1)
		return sf_fail(err, -EBADMSG,
		               "%s and %s: files of %" PRIu32 " and of %" PRIu32
		               " ranks, %s of them all there",
		               some_file(&first[0]) ? some_file(&first[0])->name : "?",
		               some_file(&first[1]) ? some_file(&first[1])->name : "?",
		               first[0].world, first[1].world, nwhole ? "both" : "neither");
	*ret = n > 1 ? whole : first;
	if ((*ret)->absent == (*ret)->world)
		return 0;
	return sf_fail(err, -ENOENT,
	               "not complete: the file of rank %" PRIu32 " is missing: %" PRIu32
	               " of %" PRIu32 " ranks' files (%s …) are there",
	               (*ret)->absent, (*ret)->have, (*ret)->world,
	               some_file(*ret) ? some_file(*ret)->name : "?");
}

int rankfiles_find(const struct sf_objinfo *files, size_t n, struct rankfiles_sets *ret,
                   const struct sf_objinfo **ret_other, struct sf_error *err)
{
	const struct rankfiles_set *chosen = NULL;
	uint32_t world;
	size_t kept = 0;
	int r = find_sets(files, n, ret);

	*ret_other = NULL;
	if (r == -E2BIG)
		return sf_fail(err, r, "files of ranks of more than %d kinds and world sizes",
		               SETS_MAX);
	if (r < 0)
		return sf_fail(err, r, "no memory for the names of %zu files", n);
	if (!ret->n)
		return sf_fail(err, -ENOENT, "no file of a rank is there");
	r = choose(ret, &chosen, err);
	if (r < 0)
		return r;
	world = chosen->world;
	for (size_t i = 0; i < ret->n; i++) {
		if (ret->at[i].world == world) {
			ret->at[kept++] = ret->at[i];
			continue;
		}
		if (!*ret_other)
			*ret_other = some_file(&ret->at[i]);
		free(ret->at[i].file);
	}
	ret->n = kept;
	return 0;
}
