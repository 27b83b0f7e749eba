#include "config.h"

#include "base/arena.h"
#include "base/mem.h"

#define FIRST_BLOCK 1024
#define LAST_BLOCK (1024 * 1024)

struct sf_arena_block {
	struct sf_arena_block *next;
	uint64_t room_; /* so that what follows is 16-aligned as malloc's memory is */
	char data[];
};
#define HEAD sizeof(struct sf_arena_block)

static struct sf_arena_block *new_block(struct sf_arena *a, size_t bytes)
{
	struct sf_arena_block *b;

	if (a->limit && (bytes > a->limit || a->used > a->limit - bytes))
		return NULL;
	if (!sf_charge_use(a->charge, bytes))
		return NULL;
	b = malloc(bytes);
	if (b)
		a->used += bytes;
	else
		sf_charge_unuse(a->charge, bytes);
	return b;
}

/* A new block for @bytes, or a block of its own for a large one, which keeps the free part of the
 * newest. */
static void *grow(struct sf_arena *a, size_t bytes)
{
	/* what was taken so far again: blocks double */
	size_t size = SF_MIN(SF_MAX(a->used, (size_t)FIRST_BLOCK), (size_t)LAST_BLOCK);
	size_t left = (size_t)(a->end - a->at);
	struct sf_arena_block *b;

	if (bytes > SIZE_MAX - HEAD)
		return NULL;
	if (a->limit && a->limit > a->used)
		size = SF_MIN(size,
		              a->limit - a->used); /* the last block before a limit is smaller */
	if (bytes + HEAD > size || (bytes > size / 4 && left > size / 4)) {
		b = new_block(a, bytes + HEAD);
		if (!b)
			return NULL;
		if (a->blocks) { /* behind the newest, whose free part stays in use */
			b->next = a->blocks->next;
			a->blocks->next = b;
		} else {
			b->next = NULL;
			a->blocks = b;
		}
		return b->data;
	}
	b = new_block(a, size);
	if (!b)
		return NULL;
	b->next = a->blocks;
	a->blocks = b;
	a->at = b->data + bytes;
	a->end = (char *)b + size;
	return b->data;
}

static void *take(struct sf_arena *a, size_t bytes, size_t align)
{
	size_t left = (size_t)(a->end - a->at);
	size_t pad = -(uintptr_t)a->at & (align - 1);

	if (!a->at || pad > left || bytes > left - pad)
		return grow(a, bytes);
	a->at += pad + bytes;
	return a->at - bytes;
}

void *sf_arena_alloc(struct sf_arena *a, size_t bytes)
{
	return take(a, bytes, 8);
}

void *sf_arena_calloc(struct sf_arena *a, size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	p = sf_arena_alloc(a, bytes);
	return p ? memset(p, 0, bytes) : NULL;
}

char *sf_arena_strdup(struct sf_arena *a, const char *s, size_t len)
{
	char *p = len < SIZE_MAX ? take(a, len + 1, 1) : NULL;

	if (!p)
		return NULL;
	if (len)
		memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

void sf_arena_release(struct sf_arena *a)
{
	for (struct sf_arena_block *b = a->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	sf_charge_unuse(a->charge, a->used);
	*a = (struct sf_arena){ .charge = a->charge };
}
