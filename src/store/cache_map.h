/* The map file of a cached object: which object it is, and which of its blocks are there. Pure. */
#ifndef SF_STORE_CACHE_MAP_H
#define SF_STORE_CACHE_MAP_H

#include <stdbool.h>
#include "store/store.h"

/*
 * A block is what is fetched at least, checked and marked. 64 KiB: a random read costs one small
 * request, 0.7 ms of a connection of 90 MB/s where the way there and back takes 30, and is not paid
 * for with a megabyte; a mark of 8 bytes a block is 1/8192 of the object. Large reads are not cut
 * by it: blocks that follow each other are one request.
 */
#define SF_CACHE_BLOCK (UINT64_C(64) << 10)
#define SF_CACHE_OBJECT_MAX (UINT64_C(1) << 40) /* bytes of an object; longer ones are not kept */
#define SF_CACHE_ID_MAX 6000                    /* bytes of URL and version together */
#define SF_CACHE_HEAD 8192                      /* bytes before the marks: the header, then zeros */
#define SF_CACHE_MARK 8                         /* bytes of a mark */
#define SF_CACHE_NAME 64 /* characters of a file's name, without its suffix */

/* One version of one object. Strings borrowed. */
struct sf_cache_id {
	const char *url;     /* as shown: no userinfo, no query */
	const char *version; /* its tag, or its device, inode and time as text */
	uint64_t size;
};
static inline uint64_t sf_cache_nblocks(uint64_t size)
{
	return size / SF_CACHE_BLOCK + (size % SF_CACHE_BLOCK != 0);
}

/* Can blocks of it be kept? Not when it is empty, too long, or has no version to tell it by: none
 * at all, a weak tag, which two contents may share, or a date of the last SF_CACHE_FRESH_S seconds
 * before @now_s (of the epoch), or to come. *ret_text: the version as text, malloc'ed. 1, 0, or
 * -ENOMEM. */
#define SF_CACHE_FRESH_S 60
int sf_cache_version(uint64_t size, const struct sf_version *version, int64_t now_s,
                     char **ret_text);

/* SHA-256 of the three as hex, NUL behind. -ENOMEM */
int sf_cache_name(const struct sf_cache_id *id, char ret[SF_CACHE_NAME + 1]);

/* 0, or -E2BIG: its words are longer than SF_CACHE_ID_MAX. */
int sf_cache_head_put(const struct sf_cache_id *id, uint8_t ret[SF_CACHE_HEAD]);
/* What a header says; the strings point into @head. -EBADMSG: it is none of this version's, or
 * damaged. */
int sf_cache_head_get(const uint8_t head[SF_CACHE_HEAD], struct sf_cache_id *ret);

/* Of @len bytes of block @i of the object called @name: neither those of another block nor of
 * another object have it. */
uint32_t sf_cache_sum(const char *name, uint64_t i, const void *at, uint64_t len);
void sf_cache_mark_put(uint32_t sum, uint8_t ret[SF_CACHE_MARK]);
/* false: not there. A damaged mark is either not there or has another sum. */
bool sf_cache_mark_get(const uint8_t mark[SF_CACHE_MARK], uint32_t *ret_sum);

#endif
