/* Pickle bytes -> a tree of inert values. Protocols 0 to 5; nothing is imported, called or run. */
#ifndef SF_PARSE_PICKLE_READ_H
#define SF_PARSE_PICKLE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

enum sf_pv_kind {
	SF_PV_NONE,
	SF_PV_BOOL,
	SF_PV_INT,
	SF_PV_LONG,
	SF_PV_FLOAT,
	SF_PV_STR,
	SF_PV_BYTES,
	SF_PV_BYTEARRAY,
	SF_PV_TUPLE,
	SF_PV_LIST,
	SF_PV_DICT,
	SF_PV_SET,
	SF_PV_FROZENSET,
	SF_PV_GLOBAL, /* module.name, never resolved; EXT1, 2, 4: "copyreg", "extension CODE" */
	SF_PV_CALL,   /* REDUCE, and INST, OBJ with arguments: callable(*args) */
	SF_PV_OBJECT, /* NEWOBJ, NEWOBJ_EX, and INST, OBJ without: cls.__new__(*args, **kwargs) */
	SF_PV_PERSID, /* persistent id; torch: ("storage", class, key, location, count) */
};

/*
 * A value. Two places that hold the same pointer hold the same Python object (sharing and cycles
 * are kept), so walk with a depth limit or a visited mark. All memory is the arena's given to
 * sf_pickle_parse.
 */
struct sf_pv {
	uint8_t kind; /* enum sf_pv_kind */
	/* reached more than once (a memo entry that was fetched): a writer needs a memo entry for
	 * it */
	bool shared;
	/* containers on the longest way down from here, itself counted; SF_PV_CALL's too; atoms
	 * have 0 */
	uint16_t height;
	/* scratch of the one who walks (writer's memo number, visited mark); 0 after parsing */
	uint32_t mark;
	union {
		bool b;
		int64_t i;
		double f;
		/* STR: UTF-8 with surrogatepass, NUL behind; BYTES; BYTEARRAY;
		 * LONG: two's complement, little-endian, shortest */
		struct {
			const char *at;
			size_t len;
		} str;
		/* TUPLE LIST SET FROZENSET; DICT: 2n of key, value (n = pairs*2) */
		struct {
			struct sf_pv **at;
			size_t n;
		} seq;
		struct {
			struct sf_pv *module, *name;
		} global; /* two STR */
		struct {
			/* CALL: callable, args tuple. OBJECT: class, args tuple */
			struct sf_pv *callable, *args;
			struct sf_pv *kwargs; /* NEWOBJ_EX, else NULL */
			/* BUILD's argument, NULL without */
			struct sf_pv *state;
			/* DICT made of SETITEM(S) on it, NULL without */
			struct sf_pv *items;
			/* LIST made of APPEND(S)/ADDITEMS on it, NULL without */
			struct sf_pv *appends;
		} call;
		struct sf_pv *persid;
	};
};

/* Bytes of a global's module and of its name. A pickle may name a long text at every turn
 * (STACK_GLOBAL); whoever writes or shows a global repeats it. */
#define SF_PICKLE_NAME_MAX 4096

/* What one pickle may cost. { 0 } fields mean the defaults, which the man page names. */
struct sf_pickle_limits {
	size_t memory;  /* bytes of arena, default 1 GiB */
	uint32_t depth; /* nesting of values as built, default 1,000 */
	uint32_t memo;  /* memo entries, default 2^28 */
};

/*
 * sf_pickle_parse - one pickle at the start of @p.
 *
 * @len: bytes there may be; *ret_used gets the bytes up to and with STOP.
 * Errors: -EBADMSG with the byte offset and the opcode; -E2BIG a limit, named; -ENOMEM.
 * Memory: values and their bytes are copied into @arena (nothing borrows from @p).
 * Threads: pure.
 * Dicts: of equal str or int keys the last gives the value and the first the place, as in Python;
 * keys of other kinds are not compared. The same holds for items of OrderedDict, defaultdict and
 * Counter; other objects keep all. Cost: O(len).
 */
int sf_pickle_parse(const uint8_t *p, size_t len, const struct sf_pickle_limits *limits,
                    struct sf_arena *arena, struct sf_pv **ret, size_t *ret_used,
                    struct sf_error *err);

bool sf_pv_is_str(const struct sf_pv *v, const char *s);
bool sf_pv_is_global(const struct sf_pv *v, const char *module, const char *name);
/* The value of a string key in a DICT, or in a CALL/OBJECT's items or state dict (or the two of
 * __slots__); NULL when missing. Of equal keys the last. Linear. */
struct sf_pv *sf_pv_get(const struct sf_pv *v, const char *key);
/* INT ≥ 0 or a LONG that fits; BOOL is no number */
bool sf_pv_u64(const struct sf_pv *v, uint64_t *ret);

#endif
