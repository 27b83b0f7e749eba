/* An object store in memory that is written to: for tests of those who upload. */
#ifndef SF_TESTS_LIB_PUT_MEM_H
#define SF_TESTS_LIB_PUT_MEM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/upload.h"

/* The calls of struct sf_put_ops. */
enum sf_put_mem_call {
	SF_PUT_MEM_PUT,
	SF_PUT_MEM_BEGIN,
	SF_PUT_MEM_PART,
	SF_PUT_MEM_FINISH,
	SF_PUT_MEM_ABORT,
	SF_PUT_MEM_REMOVE,
	SF_PUT_MEM_UNFINISHED,
	SF_PUT_MEM_NCALLS
};

/*
 * What is stored, and what goes wrong. Any number of stores over one: ranks, or processes that come after another. A
 * zeroed one is a server that does all right. Finish checks that the parts are all there, of the lengths that
 * a server wants and with the etags that it gave.
 */
struct sf_put_mem {
	/* the test's; may change while nothing is asked */
	uint64_t part_min, part_max; /* 0: 1, 5 GiB: parts of another length are -EINVAL */
	uint32_t parts_max;          /* 0: 10,000 */
	unsigned fail_calls;         /* bits 1 << SF_PUT_MEM_…: which calls are counted; 0: all */
	int64_t fail_from,
		fail_to; /* of those counted, [from, to) fail with fail_code; from == to: none */
	int fail_code;
	bool fail_late;          /* they do what was asked first: the answer was lost */
	bool ignores_conditions; /* SF_UPLOAD_CREATE is REPLACE */
	unsigned delay_ms;       /* of each call, or until it is stopped */
	/* Asked before each call, if not NULL, on the calling thread: negative is what it answers. */
	int (*before)(void *arg, enum sf_put_mem_call call, const char *name, uint32_t part);
	void *arg;
	/* what it saw */
	_Atomic uint64_t calls[SF_PUT_MEM_NCALLS], counted;
	_Atomic uint64_t bodies, most_bodies; /* put and part at once, now and ever */
	_Atomic uint64_t received;            /* bytes of bodies that were taken */
	/* its own */
	pthread_mutex_t m;
	struct sf_put_mem_object *object;
	size_t nobjects;
	struct sf_put_mem_upload *upload;
	uint64_t made; /* numbers for ids and etags */
};
void sf_put_mem_init(struct sf_put_mem *m); /* the test's fields are set, or 0 */
void sf_put_mem_release(struct sf_put_mem *m);

/* A store over it: written to by ->ops->put, read and listed too. Names are relative to @prefix ("" or ending with '/'),
 * which source shows as "mem://PREFIX". NULL: no memory. */
struct sf_store *sf_put_mem_store(struct sf_put_mem *m, struct sf_io *io, const char *prefix);

/* By its whole name; NULL: there is none. Until the object is written or removed. */
const void *sf_put_mem_at(struct sf_put_mem *m, const char *name, size_t *ret_len);
bool sf_put_mem_has(struct sf_put_mem *m, const char *name);
/* Put there, as others would; removed: false, it was not there. */
void sf_put_mem_set(struct sf_put_mem *m, const char *name, const void *at, size_t len);
bool sf_put_mem_remove(struct sf_put_mem *m, const char *name);
size_t sf_put_mem_count(struct sf_put_mem *m); /* objects */
size_t
sf_put_mem_unfinished(struct sf_put_mem *m); /* uploads that were neither finished nor aborted */

#endif
