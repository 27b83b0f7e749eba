#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "save/save_target_object_priv.h"

struct file {
	struct sf_target_file base;
	struct sf_target_object *t;
	struct sf_upload *up;
	char *meta;    /* .metadata: its name; NULL: a shard */
	uint64_t size; /* written so far */
};

static int file_write(struct sf_target_file *base, uint64_t off, const void *at, size_t len,
                      struct sf_error *err)
{
	struct file *f = (struct file *)base;

	f->size = SF_MAX(f->size, off + len);
	return sf_upload_write(f->up, off, at, len, err);
}

static void file_drop(struct sf_target_file *base)
{
	struct file *f = (struct file *)base;

	sf_upload_drop(f->up);
	free(f->meta);
	free(f);
}

static int is_gone(const struct sf_target_object *t, struct sf_error *err)
{
	return sf_fail(err, -ESTALE, "'%s': another save of it has begun since: this one ends",
	               t->shown);
}

/* A save that has begun after the marker was read may have removed what has no tag in its name, for a killed
 * save's. */
static int check_still(struct sf_target_object *t, struct sf_error *err)
{
	int r;

	if (sf_object_is_alone(&t->mine) && !t->mine.nnames)
		return 0; /* there is nothing of the kind */
	r = sf_object_marker_is_mine(t, err);
	if (r != 0)
		return SF_MIN(r, 0);
	const char *const meta[] = { t->meta };
	if (sf_object_is_my_metadata(t) == 1 && sf_upload_remove(t->up, meta, 1, NULL) >= 0)
		t->committed = false;
	return is_gone(t, err);
}

/* All shards are there: whoever creates .metadata has the target. */
static int commit(struct file *f, struct sf_error *err)
{
	struct sf_target_object *t = f->t;
	int r = sf_object_marker_is_mine(t, err);

	if (r <= 0)
		return r < 0 ? r : is_gone(t, err);
	t->meta = SF_STEAL(f->meta);
	t->meta_size = f->size;
	r = sf_upload_finish(f->up, NULL, err);
	t->committed = r >= 0;
	t->maybe = r < 0 && r != -EEXIST;
	if (r >= 0)
		f->up = NULL;
	else if (r == -EEXIST)
		sf_fail(err, r, "'%s' has appeared during the save: another was faster", t->shown);
	return r < 0 ? r : check_still(t, err);
}

static int file_close(struct sf_target_file *base, bool sync, struct sf_error *err)
{
	struct file *f = (struct file *)base;
	int r;

	(void)sync; /* it is durable */
	if (f->meta) {
		r = commit(f, err);
	} else {
		r = sf_upload_finish(f->up, NULL, err);
		if (r >= 0)
			f->up = NULL;
	}
	file_drop(base);
	return r;
}

static const struct sf_target_file_ops file_ops = {
	.write = file_write,
	.close = file_close,
	.drop = file_drop,
};

static int check_name(const struct sf_target_object *t, const char *name, struct sf_error *err)
{
	if (sf_path_check(name, strlen(name), err) < 0)
		return sf_fail_ctx(err, -EINVAL, "'%s'", t->shown);
	return strcmp(name, SF_OBJECT_MARKER) == 0
	               ? sf_fail(err, -EINVAL, "'%s/%s': the save's own name", t->shown, name)
	               : 0;
}

int sf_object_open(struct sf_save_target *base, const char *name, uint64_t size,
                   enum sf_target_name when, struct sf_target_file **ret, struct sf_error *err)
{
	struct sf_target_object *t = (struct sf_target_object *)base;
	struct sf_upload_options o = { .size = size,
		                       .when = when == SF_TARGET_CLOSED ? SF_UPLOAD_CREATE
		                                                        : SF_UPLOAD_REPLACE };
	struct file *f;
	int r = check_name(t, name, err);

	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f || (when == SF_TARGET_CLOSED && !(f->meta = strdup(name)))) {
		free(f);
		return sf_fail(err, -ENOMEM, "no memory for '%s'", name);
	}
	f->base.ops = &file_ops;
	f->t = t;
	r = sf_upload_begin(t->up, name, &o, &f->up, err);
	if (r < 0) {
		file_drop(&f->base);
		return r;
	}
	*ret = &f->base;
	return 0;
}

int sf_object_put(struct sf_save_target *base, const char *name, const void *at, size_t len,
                  bool sync, struct sf_error *err)
{
	struct sf_target_object *t = (struct sf_target_object *)base;
	int r = check_name(t, name, err);

	(void)sync;
	if (r < 0)
		return r;
	r = sf_upload_put(t->up, name, at, len, t->committed ? SF_UPLOAD_REPLACE : SF_UPLOAD_CREATE,
	                  NULL, err);
	return r == -EEXIST
	               ? sf_fail(err, r, "'%s/%s' has appeared during the save", t->shown, name)
	               : r;
}
