/* Where a save goes, until it is a checkpoint: a table of functions for each kind of place. */
#ifndef SF_SAVE_SAVE_TARGET_H
#define SF_SAVE_SAVE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "save/save_shard_name.h"

/*
 * Life of a target; each call by the ranks that it names, in this order:
 *   claim    rank 0: may the target become what this save makes? Then it is this save's, and a token
 *            tells.
 *   join     the others: the target of that token.
 *   open     any: a file in it, to write.
 *   publish  who owns: it is a checkpoint, durable. Can be undone.
 *   settle   every rank, when all have published: what is not needed any more goes.
 *   drop     every rank, after a failure, published or not: what it made goes.
 * A killed save leaves what nothing discovers, and a later save removes.
 *
 * Kinds: directories (save_target_dir.h), prefixes in buckets (save_target_object.h).
 */
struct sf_save_target;

/* How a file gets its name. */
enum sf_target_name {
	SF_TARGET_AT_ONCE, /* it may be seen by half: a shard, which nothing finds before .metadata */
	/* When it is closed: .metadata, one of each save, after all shards. With it the save has its
	 * target, whatever other saves there are: no file but the format's last comes later. */
	SF_TARGET_CLOSED,
};

/* A file that is being written: each byte once, in any order. One thread at a time. Messages name it. */
struct sf_target_file;
struct sf_target_file_ops {
	int (*write)(struct sf_target_file *f, uint64_t off, const void *at, size_t len,
	             struct sf_error *err);
	/* What was written, once more: all @len bytes. NULL: it cannot be had. */
	int (*read)(struct sf_target_file *f, uint64_t off, void *to, size_t len,
	            struct sf_error *err);
	/* All is there, and durable if @sync. Frees @f, also when it fails. */
	int (*close)(struct sf_target_file *f, bool sync, struct sf_error *err);
	/* What was written need not stay. Frees @f. */
	void (*drop)(struct sf_target_file *f);
};
struct sf_target_file {
	const struct sf_target_file_ops *ops;
};

/* What a save will write, besides shards with a tag in their names. */
struct sf_target_files {
	const char *dir;  /* where the shards lie, and .metadata: "", or with a '/' at its end */
	const char *last; /* the file that is written last: what makes it the format's checkpoint */
	const char *name; /* what callers gave, of all ranks: names with a NUL behind each */
	size_t names_len;
};
struct sf_save_target_ops {
	int (*claim)(struct sf_save_target *t, const struct sf_target_files *files, bool replace,
	             char token[33], struct sf_error *err);
	int (*join)(struct sf_save_target *t, const char *token, bool replace, bool lowest_of_host,
	            unsigned visible_ms, struct sf_error *err);
	int (*open)(struct sf_save_target *t, const char *name, uint64_t size,
	            enum sf_target_name when, struct sf_target_file **ret, struct sf_error *err);
	int (*put)(struct sf_save_target *t, const char *name, const void *at, size_t len,
	           bool sync, struct sf_error *err);
	int (*publish)(struct sf_save_target *t, bool sync, struct sf_error *err);
	void (*settle)(struct sf_save_target *t);
	void (*drop)(struct sf_save_target *t);
	void (*cancel)(struct sf_save_target *t); /* NULL: no call takes long */
	void (*free)(struct sf_save_target *t);
};
struct sf_save_target {
	const struct sf_save_target_ops *ops;
	bool owns; /* publish is this rank's */
	/* in the names of shards (save_shard_name.h), once it was claimed or joined */
	char tag[SF_SHARD_TAG_MAX];
};

struct shardfuse_context_options;
struct sf_target_options {      /* NULL where they are asked for: all 0 */
	bool replace, manifest; /* will be wanted: what cannot be had is refused at once */
	const struct shardfuse_context_options *store; /* of a URL; copied */
};
/* @path as the user gave it, or a URL of s3 or gs. Errors: -EINVAL it names nothing that a save could
 * make; -ENOTSUP another URL, or what such a target does not have; -ENOMEM. */
int sf_save_target_new(const char *path, const struct sf_target_options *o,
                       struct sf_save_target **ret, struct sf_error *err);
/* What is open is closed, nothing removed. NULL is fine. */
static inline void sf_save_target_free(struct sf_save_target *t)
{
	if (t)
		t->ops->free(t);
}

/*
 * Errors: -EEXIST there is something, and @replace is false or it is no checkpoint; -EINVAL a place that
 * nobody would clear; -EBUSY another save of it is under way; those of the file system. Nothing is left
 * after one. 1: it is there already, by this token.
 */
static inline int sf_save_target_claim(struct sf_save_target *t,
                                       const struct sf_target_files *files, bool replace,
                                       char token[33], struct sf_error *err)
{
	return t->ops->claim(t, files, replace, token, err);
}
/* @lowest_of_host: this rank is. Sets whether it owns. @replace as of claim. Errors: those of claim;
 * -ETIMEDOUT it is not to be seen within @visible_ms. */
static inline int sf_save_target_join(struct sf_save_target *t, const char *token, bool replace,
                                      bool lowest_of_host, unsigned visible_ms,
                                      struct sf_error *err)
{
	return t->ops->join(t, token, replace, lowest_of_host, visible_ms, err);
}
static inline bool sf_save_target_owns(const struct sf_save_target *t)
{
	return t->owns;
}
/* A new file. @size: what it will have, 0: not known; -ENOSPC at once where that much is not there. @name
 * is relative; directories above it are made. -EEXIST; -EINVAL no such name. */
static inline int sf_save_target_open(struct sf_save_target *t, const char *name, uint64_t size,
                                      enum sf_target_name when, struct sf_target_file **ret,
                                      struct sf_error *err)
{
	return t->ops->open(t, name, size, when, ret, err);
}
/* A small file: whole or not there. */
static inline int sf_save_target_put(struct sf_save_target *t, const char *name, const void *at,
                                     size_t len, bool sync, struct sf_error *err)
{
	return t->ops->put(t, name, at, len, sync, err);
}
static inline int sf_save_target_publish(struct sf_save_target *t, bool sync, struct sf_error *err)
{
	return t->ops->publish(t, sync, err);
}
static inline void sf_save_target_settle(struct sf_save_target *t)
{
	t->ops->settle(t);
}
static inline void sf_save_target_drop(struct sf_save_target *t)
{
	t->ops->drop(t);
}

/* What waits there for long ends soon, -ECANCELED. Any thread. */
static inline void sf_save_target_cancel(struct sf_save_target *t)
{
	if (t->ops->cancel)
		t->ops->cancel(t);
}

static inline int sf_target_file_write(struct sf_target_file *f, uint64_t off, const void *at,
                                       size_t len, struct sf_error *err)
{
	return f->ops->write(f, off, at, len, err);
}
static inline int sf_target_file_read(struct sf_target_file *f, uint64_t off, void *to, size_t len,
                                      struct sf_error *err)
{
	return f->ops->read(f, off, to, len, err);
}
static inline int sf_target_file_close(struct sf_target_file *f, bool sync, struct sf_error *err)
{
	return f->ops->close(f, sync, err);
}
static inline void sf_target_file_drop(struct sf_target_file *f) /* NULL is fine */
{
	if (f)
		f->ops->drop(f);
}

/* What names this machine, for who is the lowest of its host: of boot id and host name. */
uint64_t sf_save_target_host(void);
/* A token that no other save has: @ret of 32 hex digits, the first 16 the host's. */
void sf_save_target_token(char ret[33]);

#endif
