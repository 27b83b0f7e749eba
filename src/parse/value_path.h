/* A path into a nested state dict. */
#ifndef SF_PARSE_VALUE_PATH_H
#define SF_PARSE_VALUE_PATH_H

#include <stdint.h>

/* What the container is in which an element stands. Containers follow from their elements: all of
 * them positions, it is a list or a tuple; else a dict. */
enum sf_path_kind {
	SF_PATH_TEXT,  /* a dict, under a str */
	SF_PATH_LIST,  /* a list, at a position. Far too large ones make it a dict after all, as
	                  torch's planner gives ints */
	SF_PATH_INT,   /* a dict, under an int */
	SF_PATH_TUPLE, /* a tuple, at a position */
};

/* One element of the path at which a key sits in the nested state dict. */
struct sf_path_elem {
	const char *s; /* text; of a number its decimal digits */
	uint32_t len;
	uint32_t kind; /* enum sf_path_kind */
};

#endif
