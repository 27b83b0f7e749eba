/* What the files of save_write share: a file that is being written, and its image in memory. */
#ifndef SF_SAVE_SAVE_WRITE_PRIV_H
#define SF_SAVE_SAVE_WRITE_PRIV_H

#include <pthread.h>
#include "base/path.h"
#include "save/save_item_bytes.h"
#include "save/save_write.h"

/* An item's place, by file and offset. */
struct sf_write_at {
	uint64_t off, item, place; /* place: its number among the caller's */
	uint64_t len;              /* in the file */
	uint32_t file;
};

/* Where a walk along a file is. Each item is zeros up to its start, then of a tensor its head, payload and
 * tail, of an object its archive (the payload). */
enum sf_write_part { SF_PART_GAP, SF_PART_HEAD, SF_PART_PAYLOAD, SF_PART_TAIL };
struct sf_write_walk {
	uint64_t k;              /* of the file's items */
	enum sf_write_part part; /* of that item */
	uint64_t in, len;        /* how far in the part, and of how many bytes */
	uint64_t pos;            /* in the file */
	struct sf_save_tensor_item plan;
};

/* A piece of the file's image. */
struct sf_write_slab {
	struct sf_stage_buf *buf;
	size_t len;
	struct sf_write_walk first; /* where it begins */
	bool direct; /* behind it comes a payload that is written from where it lies */
	struct sf_stage_copies copies;
};
SF_VEC(sf_write_slabs, struct sf_write_slab);

struct sf_write_file {
	struct sf_shard_write *w;
	uint32_t number;
	struct sf_write_at *at; /* its items */
	uint64_t n;
	char name[SF_SHARD_NAME_MAX + 64]; /* with the directory */
	pthread_t thread;
	bool started;
	struct sf_target_file *out;     /* NULL: not open */
	uint64_t size;                  /* 0: not known before it is written */
	const struct sf_device *device; /* whose buffers its items are copied to fastest */
	size_t slab;                    /* bytes of a slab */
	struct sf_write_walk staged;    /* how far it was copied */

	/* of the item that is being written */
	uint32_t crc;
	bool head_open; /* its head waits for the CRC */
	uint64_t head_off;

	struct sf_sha256_run *sha; /* NULL: nobody asks */
	uint64_t hashed;           /* bytes of the file that it has seen */
	int r;
	struct sf_error err;
	struct sf_shard_file done;
};

struct sf_shard_write {
	struct sf_save_target *target;
	const struct sf_save_items *items;
	struct sf_shard_writer_options o;
	bool snapshot;
	struct sf_write_at *at; /* all items, by file and offset */
	uint64_t n;
	struct sf_write_file *file;
	_Atomic bool failed; /* a file did: the others need not go on */
	_Atomic unsigned running;
	struct {
		pthread_mutex_t m;
		pthread_cond_t changed;
		unsigned staging; /* files whose items are not all copied */
	} locked;
};

/* 0, or -ECANCELED. */
int sf_shard_check(struct sf_write_file *f, struct sf_error *err);

/* ---- save_write_out.c ---- */

int sf_write_open(struct sf_write_file *f, struct sf_error *err);
/* @len bytes at @off of the file; @counts of them are items', for progress. */
int sf_write_out(struct sf_write_file *f, uint64_t off, const void *at, size_t len, uint64_t counts,
                 struct sf_error *err);
/* All before @off is written: the hash may see it. */
int sf_write_hash_to(struct sf_write_file *f, uint64_t off, struct sf_error *err);
/* fsync, hash, close. */
int sf_write_close(struct sf_write_file *f, struct sf_error *err);

/* ---- save_write_image.c ---- */

/* At the first item; the file's size too. */
int sf_write_walk_begin(struct sf_write_file *f, struct sf_write_walk *w, struct sf_error *err);
static inline bool sf_write_walk_ended(const struct sf_write_file *f, const struct sf_write_walk *w)
{
	return w->k == f->n;
}
/* Copies what comes next into @slab->buf and begins what devices copy by themselves. */
int sf_write_stage(struct sf_write_file *f, struct sf_write_slab *slab, struct sf_error *err);
/* Waits for those, fills in heads and tails, writes it. */
int sf_write_slab(struct sf_write_file *f, struct sf_write_slab *slab, struct sf_error *err);

static inline const struct sf_save_item *sf_write_item(const struct sf_write_file *f, uint64_t k)
{
	return &f->w->items->item.at[f->at[k].item];
}
/* What an item consists of: of an object head_len and tail_len are 0. */
int sf_write_plan(struct sf_write_file *f, uint64_t k, struct sf_save_tensor_item *ret,
                  struct sf_error *err);
/* Its head, or its tail, of as many bytes as was planned. */
int sf_write_make(const struct sf_save_tensor_item *plan, bool head, uint32_t crc,
                  struct sf_buf *out, struct sf_error *err);

/* ---- save_write_zstd.c ---- */

/* Where files are compressed: all items of it, from their memory or from copies; tells when they are copied. */
int sf_write_zstd(struct sf_write_file *f, struct sf_error *err);

/* ---- save_write.c ---- */

/* All of this file is copied: whoever began the writers may go on. */
void sf_write_tell_staged(struct sf_write_file *f);

#endif
