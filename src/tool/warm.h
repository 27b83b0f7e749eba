/* Stored bytes that are read so that they are near afterwards: in the block cache, or in the kernel's
 * memory where the store is a directory. */
#ifndef SF_TOOL_WARM_H
#define SF_TOOL_WARM_H

#include "base/vec.h"
#include "catalog/catalog.h"
#include "store/source.h"
#include "tool/progress.h"

struct sf_warm_range {
	const struct sf_file *file; /* borrowed */
	uint64_t off, len;          /* bytes of it; 0: it is opened, to see whether it can be */
};
SF_VEC(sf_warm_ranges, struct sf_warm_range);

/*
 * sf_warm_ranges_of - the stored bytes that the keys shown by @c need, by file and offset, each once.
 *
 * Of a checkpoint that is shown whole, its files from end to end; of a stream, the file it lies in;
 * of a file that is missing, 0 bytes. What metadata does not place, or places past the end of a
 * file, is left out. -ENOMEM.
 */
int sf_warm_ranges_of(const struct sf_catalog *c, struct sf_warm_ranges *ret, struct sf_error *err);
uint64_t sf_warm_bytes(const struct sf_warm_range *at, size_t n);

struct sf_warm {
	/* As sf_file_open with @arg for the store; on the caller's thread. */
	int (*open)(void *arg, const struct sf_file *file, struct sf_source **ret,
	            struct sf_error *err);
	unsigned at_once;             /* requests, of 8 MiB at most; 1 or more */
	struct sf_progress *progress; /* NULL: nobody looks */
	/* Of a file that cannot be read, once, on the caller's thread; the others are read on. */
	void (*failed)(void *arg, const struct sf_file *file, const struct sf_error *err);
	void *arg;               /* of both */
	_Atomic uint64_t *count; /* bytes are added to it, too; NULL: to nothing */
	/* the result, and how far it is meanwhile */
	_Atomic uint64_t bytes;
	unsigned nfailed; /* files */
	/* its own */
	pthread_mutex_t m;
	pthread_cond_t c;
	bool stop; /* under m */
};
/* Files of @store, until open is another. */
void sf_warm_init(struct sf_warm *w, struct sf_store *store, unsigned at_once);
void sf_warm_release(struct sf_warm *w);
/*
 * sf_warm_read - reads @n ranges, side by side, and lets the bytes go.
 *
 * Ranges of a file stand side by side. Waits, not in a task of io->pool. Memory: 66 KiB for each of at_once. -ENOMEM; -ECANCELED: it was
 * stopped; files that cannot be read are no failure of it.
 */
int sf_warm_read(struct sf_warm *w, const struct sf_warm_range *at, size_t n, struct sf_error *err);
/* It ends soon. Any thread, at any time between init and release. */
void sf_warm_stop(struct sf_warm *w);

#endif
