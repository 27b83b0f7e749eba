/* Where a save goes, until it is a checkpoint: a table of functions for each kind of place. */
#ifndef SF_SAVE_SAVE_TARGET_H
#define SF_SAVE_SAVE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

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
 * Kinds: directories (save_target_dir.h).
 */
struct sf_save_target;

/* How a file gets its name. */
enum sf_target_name {
	SF_TARGET_AT_ONCE, /* it may be seen by half: a shard, which nothing finds before .metadata */
	SF_TARGET_CLOSED, /* when it is closed: what tells that a checkpoint is there */
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

struct sf_save_target_ops {
	int (*claim)(struct sf_save_target *t, bool replace, char token[33], struct sf_error *err);
	int (*join)(struct sf_save_target *t, const char *token, bool replace, bool lowest_of_host,
	            unsigned visible_ms, struct sf_error *err);
	int (*open)(struct sf_save_target *t, const char *name, uint64_t size,
	            enum sf_target_name when, struct sf_target_file **ret, struct sf_error *err);
	int (*put)(struct sf_save_target *t, const char *name, const void *at, size_t len,
	           bool sync, struct sf_error *err);
	int (*publish)(struct sf_save_target *t, bool sync, struct sf_error *err);
	void (*settle)(struct sf_save_target *t);
	void (*drop)(struct sf_save_target *t);
	void (*free)(struct sf_save_target *t);
};
struct sf_save_target {
	const struct sf_save_target_ops *ops;
	bool owns; /* publish is this rank's */
};

/* @path as the user gave it. Errors: -EINVAL it names nothing that a save could make; -ENOMEM. */
int sf_save_target_new(const char *path, struct sf_save_target **ret, struct sf_error *err);
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
static inline int sf_save_target_claim(struct sf_save_target *t, bool replace, char token[33],
                                       struct sf_error *err)
{
	return t->ops->claim(t, replace, token, err);
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
