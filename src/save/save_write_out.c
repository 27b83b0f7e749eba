#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "save/save_write_priv.h"

#define READ_BACK ((size_t)256 << 10)

int sf_write_open(struct sf_write_file *f, struct sf_error *err)
{
	int r = sf_save_target_open(f->w->target, f->name, f->size, SF_TARGET_AT_ONCE, &f->out,
	                            err);

	if (r < 0)
		return r;
	if (f->w->o.hash && !(f->sha = sf_sha256_begin()))
		return sf_fail(err, -ENOMEM, "'%s': its SHA-256", f->name);
	return 0;
}

/* What was written just behind what the hash has seen: not a head that is still to come, nor what is behind it. */
static void hash_now(struct sf_write_file *f, uint64_t off, const void *at, size_t len)
{
	uint64_t end = off + len;

	if (f->head_open)
		end = SF_MIN(end, f->head_off);
	if (!f->sha || off != f->hashed || end <= off)
		return;
	sf_sha256_feed(f->sha, at, end - off);
	f->hashed = end;
}

int sf_write_out(struct sf_write_file *f, uint64_t off, const void *at, size_t len, uint64_t counts,
                 struct sf_error *err)
{
	int r = sf_shard_check(f, err);

	if (r < 0 || len == 0)
		return r;
	r = sf_target_file_write(f->out, off, at, len, err);
	if (r < 0)
		return r;
	hash_now(f, off, at, len);
	if (f->w->o.progress)
		atomic_fetch_add_explicit(f->w->o.progress, counts, memory_order_relaxed);
	return 0;
}

/* A head is written after its payload: what came out of order is read back, from the page cache mostly. */
int sf_write_hash_to(struct sf_write_file *f, uint64_t off, struct sf_error *err)
{
	if (!f->sha || f->hashed >= off)
		return 0;
	SF_FREE uint8_t *buf = malloc(READ_BACK);
	if (!buf)
		return sf_fail(err, -ENOMEM, "'%s': its SHA-256", f->name);
	while (f->hashed < off) {
		size_t n = SF_MIN(READ_BACK, off - f->hashed);
		int r = sf_target_file_read(f->out, f->hashed, buf, n, err);
		if (r >= 0)
			r = sf_shard_check(f, err);
		if (r < 0)
			return r;
		sf_sha256_feed(f->sha, buf, n);
		f->hashed += n;
	}
	return 0;
}

int sf_write_close(struct sf_write_file *f, struct sf_error *err)
{
	int r = sf_write_hash_to(f, f->size, err);

	if (r >= 0 && f->sha && sf_sha256_end(SF_STEAL(f->sha), f->done.sha256) < 0)
		r = sf_fail(err, -ENOMEM, "'%s': its SHA-256", f->name);
	if (r >= 0)
		r = sf_shard_check(f, err); /* fsync may take long */
	if (r >= 0)
		r = sf_target_file_close(SF_STEAL(f->out), f->w->o.fsync, err);
	f->done.size = f->size;
	return r;
}
