#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "format/megatron/megatron_ranks.h"

#define RANKS_MAX 65536 /* of a grid: more than any job has had */
#define VALUE_MAX (UINT64_C(256) << 20)
static const char model_file[] = "model_optim_rng.pt", optim_file[] = "distrib_optim.pt";

/* A directory's name in numbers. */
struct dir_name {
	const char *name; /* whole path of a file in it */
	size_t len;       /* of the directory's part of it */
	uint32_t number[3];
	unsigned n;
	const struct sf_objinfo *model, *optim;
};
SF_VEC(dir_names, struct dir_name);

/* "mp_rank_00_003/": how many numbers, 0 it is none. @ret_len: without the slash. */
static unsigned parse_dir(const char *s, uint32_t number[3], size_t *ret_len)
{
	static const char begin[] = "mp_rank";
	const char *p = s + sizeof(begin) - 1;
	unsigned n = 0;

	if (strncmp(s, begin, sizeof(begin) - 1) != 0)
		return 0;
	for (; *p == '_' && n < 3; n++) {
		const char *from = ++p;
		number[n] = 0;
		for (; *p >= '0' && *p <= '9' && p - from < 7; p++)
			number[n] = number[n] * 10 + (uint32_t)(*p - '0');
		if (p == from)
			return 0;
	}
	*ret_len = (size_t)(p - s);
	return *p == '/' ? n : 0;
}

bool megatron_is_rank_file(const char *name, const char *dir)
{
	const size_t front = strlen(dir);
	uint32_t number[3];
	size_t len;

	return strncmp(name, dir, front) == 0 && parse_dir(name + front, number, &len) &&
	       strcmp(name + front + len + 1, model_file) == 0;
}

/* Directories in the order of the listing, which is theirs. */
static int list_dirs(const struct sf_format_dir *src, struct dir_names *ret, struct sf_error *err)
{
	const size_t front = strlen(src->dir);

	for (size_t i = 0; i < src->nfiles; i++) {
		const struct sf_objinfo *f = &src->files[i];
		struct dir_name d = { .name = f->name }, *last;
		size_t len;
		if (strncmp(f->name, src->dir, front) != 0)
			continue;
		d.n = parse_dir(f->name + front, d.number, &len);
		d.len = front + len;
		last = ret->n ? &ret->at[ret->n - 1] : NULL;
		if (!d.n)
			continue;
		if (!last || last->len != d.len || memcmp(last->name, d.name, d.len) != 0) {
			if (dir_names_push(ret, d) < 0)
				return sf_fail(err, -ENOMEM, "no memory for %zu ranks", ret->n);
			last = &ret->at[ret->n - 1];
		}
		if (strcmp(f->name + d.len + 1, model_file) == 0)
			last->model = f;
		else if (strcmp(f->name + d.len + 1, optim_file) == 0)
			last->optim = f;
	}
	return 0;
}

/* All files, and which one each directory's are: @of[2 * i] the model's, + 1; 0 none. */
static int open_parts(const struct sf_format_dir *src, const struct dir_names *dirs,
                      struct megatron_ranks *r, size_t *of, struct sf_error *err)
{
	for (size_t i = 0; i < dirs->n; i++) {
		const struct sf_objinfo *file[2] = { dirs->at[i].model, dirs->at[i].optim };
		for (int k = 0; k < 2; k++) {
			if (!file[k])
				continue;
			r->part[r->nparts].file = file[k];
			of[2 * i + (size_t)k] = ++r->nparts;
		}
	}
	return sf_torch_parts_open(src->store, r->part, r->nparts, VALUE_MAX, err);
}

/* A part that cannot be read is missing, unless that may be better next time. */
static int check_part(struct sf_ckpt_builder *b, const struct sf_torch_part *part,
                      struct sf_error *err)
{
	if (part->r == 0)
		return 1;
	if (part->r != -EBADMSG && part->r != -ENOTSUP && part->r != -E2BIG && part->r != -ENOENT)
		return sf_fail(err, part->r, "%s", part->err.msg);
	return sf_ckpt_builder_warn(b, NULL, "unreadable-file", "%s", part->err.msg);
}

uint64_t megatron_arg(const struct megatron_ranks *r, const char *name, uint64_t without)
{
	const struct sf_pv *v = r->args ? sf_pv_get(r->args, name) : NULL;
	uint64_t ret;

	return v && sf_pv_u64(v, &ret) ? ret : without;
}

bool megatron_arg_is_set(const struct megatron_ranks *r, const char *name)
{
	const struct sf_pv *v = r->args ? sf_pv_get(r->args, name) : NULL;

	return v && v->kind != SF_PV_NONE && !(v->kind == SF_PV_BOOL && !v->b) &&
	       !(v->kind == SF_PV_INT && !v->i);
}

/* Of one model file: what all have alike. */
static int check_same(struct sf_ckpt_builder *b, const struct sf_torch_part *first,
                      const struct sf_torch_part *part)
{
	const struct sf_pv *a = sf_pv_get(first->archive.root, "iteration"),
			   *v = sf_pv_get(part->archive.root, "iteration");
	uint64_t x, y;

	if (!a || !v || !sf_pv_u64(a, &x) || !sf_pv_u64(v, &y) || x == y)
		return 0;
	return sf_ckpt_builder_warn(b, NULL, "mixed-steps",
	                            "'%s' is of iteration %" PRIu64 ", '%s' of %" PRIu64,
	                            first->file->name, x, part->file->name, y);
}

/* args and checkpoint_version, from the first file that can be read. */
static int look_at_parts(struct sf_ckpt_builder *b, const struct dir_names *dirs, const size_t *of,
                         struct megatron_ranks *r, struct sf_error *err)
{
	const struct sf_torch_part *first = NULL;

	for (size_t i = 0; i < dirs->n; i++) {
		for (int k = 0; k < 2; k++) {
			const size_t at = of[2 * i + (size_t)k];
			int ok = at ? check_part(b, &r->part[at - 1], err) : 0;
			if (ok < 0)
				return ok;
			if (!ok || k)
				continue;
			first = first ? first : &r->part[at - 1];
			ok = check_same(b, first, &r->part[at - 1]);
			if (ok < 0)
				return ok;
		}
	}
	if (!first)
		return sf_fail(err, -ENOENT, "none of the %zu ranks' %s can be read%s%s", dirs->n,
		               model_file, r->nparts ? ": " : "",
		               r->nparts ? r->part[0].err.msg : "");
	const struct sf_pv *v = sf_pv_get(first->archive.root, "checkpoint_version");
	r->args = sf_pv_get(first->archive.root, "args");
	if (v && (v->kind == SF_PV_FLOAT || v->kind == SF_PV_INT))
		r->version = v->kind == SF_PV_FLOAT ? v->f : (double)v->i;
	return 0;
}

/* One number behind the tensor rank's is the pipeline's, or the experts': args know. */
static void place_of(const struct megatron_ranks *r, const struct dir_name *d,
                     struct megatron_rank *ret)
{
	const bool pipe = megatron_arg(r, "pipeline_model_parallel_size", 1) > 1,
		   expert = megatron_arg(r, "expert_model_parallel_size", 1) > 1;

	*ret = (struct megatron_rank){ .tensor = d->number[0] };
	if (d->n == 3) {
		ret->pipe = d->number[1];
		ret->expert = d->number[2];
	} else if (d->n == 2 && expert && !pipe) {
		ret->expert = d->number[1];
	} else if (d->n == 2) {
		ret->pipe = d->number[1];
	}
}

static int warn_world(struct sf_ckpt_builder *b, const struct megatron_ranks *r)
{
	const struct {
		const char *arg;
		uint32_t found;
	} sizes[] = { { "tensor_model_parallel_size", r->ntensor },
		      { "pipeline_model_parallel_size", r->npipe },
		      { "expert_model_parallel_size", r->nexpert } };
	int ret = 0;

	for (size_t i = 0; i < SF_ARRAY_LEN(sizes) && ret >= 0; i++) {
		const uint64_t want = megatron_arg(r, sizes[i].arg, sizes[i].found);
		if (want != sizes[i].found)
			ret = sf_ckpt_builder_warn(b, NULL, "wrong-world",
			                           "args.%s is %" PRIu64
			                           ", the files are of %" PRIu32,
			                           sizes[i].arg, want, sizes[i].found);
	}
	return ret;
}

/* Sizes of the grid: of what is there, and at least what args say. */
static int size_grid(const struct dir_names *dirs, struct megatron_ranks *r, struct sf_error *err)
{
	const uint64_t want[3] = { megatron_arg(r, "tensor_model_parallel_size", 1),
		                   megatron_arg(r, "pipeline_model_parallel_size", 1),
		                   megatron_arg(r, "expert_model_parallel_size", 1) };
	uint32_t *size[3] = { &r->ntensor, &r->npipe, &r->nexpert };
	struct megatron_rank at;
	uint64_t n = 1;

	r->ntensor = r->npipe = r->nexpert = 1;
	for (size_t i = 0; i < dirs->n; i++) {
		place_of(r, &dirs->at[i], &at);
		r->ntensor = SF_MAX(r->ntensor, at.tensor + 1);
		r->npipe = SF_MAX(r->npipe, at.pipe + 1);
		r->nexpert = SF_MAX(r->nexpert, at.expert + 1);
	}
	for (int k = 0; k < 3; k++) {
		/* a number that is no size is told, and not believed */
		if (want[k] > *size[k] && want[k] <= RANKS_MAX)
			*size[k] = (uint32_t)want[k];
		n *= *size[k];
	}
	if (n > RANKS_MAX || n > 64 + 64 * (uint64_t)dirs->n)
		return sf_fail(err, -E2BIG,
		               "%zu directories of ranks, but %" PRIu32 " x %" PRIu32 " x %" PRIu32
		               " ranks by their names and args",
		               dirs->n, r->ntensor, r->npipe, r->nexpert);
	return 0;
}

static int fill_grid(const struct dir_names *dirs, const size_t *of, size_t front,
                     struct sf_ckpt_builder *b, struct megatron_ranks *r, struct sf_error *err)
{
	const size_t n = (size_t)r->ntensor * r->npipe * r->nexpert;
	struct megatron_rank one, *at;

	r->at = sf_arena_calloc(&r->arena, n, sizeof(*r->at));
	if (!r->at)
		return sf_fail(err, -ENOMEM, "no memory for %zu ranks", n);
	for (size_t i = 0; i < dirs->n; i++) {
		const struct dir_name *d = &dirs->at[i];
		const size_t *part = &of[2 * i];
		place_of(r, d, &one);
		at = megatron_rank_at(r, one.pipe, one.expert, one.tensor);
		one.dir = sf_arena_strdup(&r->arena, d->name + front, d->len - front);
		if (!one.dir)
			return sf_fail(err, -ENOMEM, "no memory for %zu ranks", n);
		if (part[0] && r->part[part[0] - 1].r == 0)
			one.model = &r->part[part[0] - 1];
		if (part[1] && r->part[part[1] - 1].r == 0)
			one.optim = &r->part[part[1] - 1];
		if (at->dir) { /* mp_rank_0 and mp_rank_00 */
			if (sf_ckpt_builder_warn(b, NULL, "wrong-world",
			                         "'%s' and '%s' are one rank: the first is read",
			                         at->dir, one.dir) < 0)
				return -ENOMEM;
			continue;
		}
		*at = one;
	}
	return 0;
}

/* Which of the grid's ranks are not there; a stage of which there is none ends it. */
static int check_grid(struct sf_ckpt_builder *b, const struct megatron_ranks *r,
                      struct sf_error *err)
{
	for (uint32_t p = 0; p < r->npipe; p++) {
		bool any = false;
		for (uint32_t k = 0; k < r->nexpert * r->ntensor; k++) {
			const uint32_t e = k / r->ntensor, t = k % r->ntensor;
			const struct megatron_rank *at = megatron_rank_at(r, p, e, t);
			any |= at->model != NULL;
			if (!at->model &&
			    sf_ckpt_builder_warn(
				    b, NULL, "missing-rank",
				    "tensor rank %" PRIu32 ", pipeline stage %" PRIu32
				    ", expert rank %" PRIu32 " of %" PRIu32 " x %" PRIu32
				    " x %" PRIu32 " has no %s that can be read",
				    t, p, e, r->ntensor, r->npipe, r->nexpert, model_file) < 0)
				return -ENOMEM;
		}
		if (!any)
			return sf_fail(err, -ENOENT,
			               "no %s of pipeline stage %" PRIu32 " of %" PRIu32
			               " can be read: which layers follow it is not known",
			               model_file, p, r->npipe);
	}
	return 0;
}

int megatron_ranks_open(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                        struct megatron_ranks *ret, struct sf_error *err)
{
	SF_CLEANUP(dir_names_release) struct dir_names dirs = { 0 };
	SF_FREE size_t *of = NULL;
	int r;

	*ret = (struct megatron_ranks){ .version = 0 };
	r = list_dirs(src, &dirs, err);
	if (r < 0)
		return r;
	of = calloc(2 * dirs.n + 1, sizeof(*of));
	ret->part = calloc(2 * dirs.n + 1, sizeof(*ret->part));
	if (!of || !ret->part)
		return sf_fail(err, -ENOMEM, "no memory for %zu ranks", dirs.n);
	r = open_parts(src, &dirs, ret, of, err);
	if (r >= 0)
		r = look_at_parts(b, &dirs, of, ret, err);
	if (r >= 0)
		r = size_grid(&dirs, ret, err);
	if (r >= 0)
		r = fill_grid(&dirs, of, strlen(src->dir), b, ret, err);
	if (r >= 0)
		r = warn_world(b, ret);
	if (r >= 0)
		r = check_grid(b, ret, err);
	return r == -ENOMEM && err && !err->msg[0]
	               ? sf_fail(err, r, "no memory for %zu ranks", dirs.n)
	               : r;
}

void megatron_ranks_release(struct megatron_ranks *r)
{
	sf_torch_parts_release(r->part, r->nparts);
	free(r->part);
	sf_arena_release(&r->arena);
	*r = (struct megatron_ranks){ .version = 0 };
}
