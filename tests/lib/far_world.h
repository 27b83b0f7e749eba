/* A checkpoint in memory (sf_fake_ckpt.h) behind a store that is far, and its reader. */
#ifndef SF_TESTS_LIB_FAR_WORLD_H
#define SF_TESTS_LIB_FAR_WORLD_H

#include <string.h>

#include "read/reader.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tests/lib/store_far.h"

static struct sf_io io;
static struct fake f; /* the test makes it, before begin() */
static struct sf_far far;
static struct sf_store *store;
static struct sf_reader *reader;

static void begin(struct sf_far how)
{
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	memset(&far, 0, sizeof(far));
	far = how;
	fake_objects(&f);
	ck_assert_int_eq(sf_store_far(&io, f.object, FAKE_FILES, &far, &store, NULL), 0);
	fake_finish(&f, store);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
	sf_far_forget(&far);
}

static void end(void)
{
	sf_reader_free(reader);
	sf_store_free(store);
	sf_io_release(&io);
	ck_assert_uint_eq(far.lent, far.back);
	ck_assert_ptr_null(far.locked.blocks);
	fake_release(&f);
}

#endif
