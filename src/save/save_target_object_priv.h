/* What the files of save_target_object share. */
#ifndef SF_SAVE_SAVE_TARGET_OBJECT_PRIV_H
#define SF_SAVE_SAVE_TARGET_OBJECT_PRIV_H

#include "base/buf.h"
#include "base/vec.h"
#include "save/save_target_object.h"
#include "save/save_target_store.h"
#include "store/upload.h"

#define SF_OBJECT_MARKER ".shardfuse-save"

/* The marker: whose the prefix is, and what that save writes under names without its token. */
struct sf_object_marker {
	struct sf_buf text;
	bool there, ours; /* ours: whole, of a version that we know */
	char token[33], tag[SF_SHARD_TAG_MAX];
	const char *dir, *last; /* in text */
	const char **name;      /* sorted, in text */
	size_t nnames;
};

SF_VEC(sf_object_names, char *); /* each malloc'ed */

struct sf_target_object {
	struct sf_save_target base;
	char *url, *shown; /* shown: as it may be */
	struct shardfuse_context_options o;
	struct sf_target_store
		*_Atomic shared; /* NULL: not open, or the uploads are the caller's */
	struct sf_uploads *up;   /* NULL: not open */
	char token[33];
	struct sf_object_marker mine; /* rank 0's */
	bool committed;               /* .metadata is there, by this save */
	bool maybe;                   /* it may be: nobody could tell */
	uint64_t meta_size;           /* of .metadata as it was written */
	char *meta;                   /* its name; NULL: not written yet */
};

/* ---- save_target_object_marker.c ---- */

void sf_object_marker_release(struct sf_object_marker *m);
/* What @files says, as the save of @token has it, and @left: what another has left, so that it is known
 * as such for as long as it is there. */
int sf_object_marker_make(struct sf_object_marker *m, const char *token,
                          const struct sf_target_files *files, const struct sf_object_names *left,
                          struct sf_error *err);
int sf_object_marker_put(struct sf_target_object *t, struct sf_error *err);
/* That which is there now; not there is fine. */
int sf_object_marker_read(struct sf_target_object *t, struct sf_object_marker *ret,
                          struct sf_error *err);
/* 1: it is this save's; 0: another's, or it is gone. */
int sf_object_marker_is_mine(struct sf_target_object *t, struct sf_error *err);

/* ---- save_target_object_names.c ---- */

enum sf_object_kind {
	SF_OBJECT_OTHER, /* no save has made it */
	SF_OBJECT_MARK,  /* the marker */
	SF_OBJECT_SHARD, /* with the tag of a save; a part of one too */
	SF_OBJECT_LEFT,  /* of the marker's save, without one */
	SF_OBJECT_META,  /* its .metadata, which is not the last */
	SF_OBJECT_LAST,
};
/* What is @name, below the target? @m: what the marker says; m->ours false: there is none. *ret_tag: of a
 * shard. Pure. */
enum sf_object_kind sf_object_kind(const struct sf_object_marker *m, const char *name,
                                   char ret_tag[SF_SHARD_TAG_MAX]);

/* What some save uploads in parts, or may, whatever a marker says. Pure. */
bool sf_object_is_formats(const char *name);
/* Is its last file .metadata? */
bool sf_object_is_alone(const struct sf_object_marker *m);

/* ---- save_target_object_clean.c ---- */

int sf_object_names_add(struct sf_object_names *names, const char *name); /* -ENOMEM */
void sf_object_names_free(struct sf_object_names *names);
/* What lies below the target is what a save left that was killed: names without a tag into @ret_left, what
 * tells that a checkpoint is there first. -EEXIST. */
int sf_object_look(struct sf_target_object *t, const struct sf_object_marker *m,
                   struct sf_object_names *ret_left, size_t *ret_first, struct sf_error *err);
/* @first of them, and when those are gone the others. */
int sf_object_remove(struct sf_target_object *t, const struct sf_object_names *names, size_t first,
                     struct sf_error *err);
/* Is the .metadata that is there this save's? It names the shards. 1, 0, or an error. */
int sf_object_is_my_metadata(struct sf_target_object *t);
/* Of rank 0. */
void sf_object_settle(struct sf_target_object *t);
void sf_object_drop(struct sf_target_object *t);

/* ---- save_target_object_file.c ---- */

int sf_object_open(struct sf_save_target *t, const char *name, uint64_t size,
                   enum sf_target_name when, struct sf_target_file **ret, struct sf_error *err);
int sf_object_put(struct sf_save_target *t, const char *name, const void *at, size_t len, bool sync,
                  struct sf_error *err);

#endif
