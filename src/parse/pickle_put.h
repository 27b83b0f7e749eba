/* Inside of the pickle writer. Only pickle_write*.c include it. */
#ifndef SF_PARSE_PICKLE_PUT_H
#define SF_PARSE_PICKLE_PUT_H

#include "base/map.h"
#include "parse/pickle_write.h"

struct sf_pw_name {
	const char *at; /* "module\nname\n" of a global, or the text of a str */
	size_t len;
	uint32_t memo;
	bool global;
};
SF_VEC(sf_pw_names, struct sf_pw_name);
SF_VEC(sf_pw_marked, struct sf_pv *);

/* What sf_pickle_writer keeps to itself. */
struct sf_pw_private {
	struct sf_pw_names names;
	struct sf_map map;          /* text -> names */
	bool ask_global;            /* of the name that the map is asked for */
	struct sf_pw_marked marked; /* values whose .mark is ours now */
	uint32_t in_sets;           /* shared sets whose elements are being written */
	uint64_t budget;            /* values that may still be written in this call */
};

void sf_pw_put(struct sf_pickle_writer *w, uint32_t memo);
void sf_pw_get(struct sf_pickle_writer *w, uint32_t memo);
void sf_pw_text(struct sf_pickle_writer *w, const char *s,
                size_t len); /* BINUNICODE, never fetched */
/* BINUNICODE; "storage" and "cpu" are fetched where the stream has them. */
void sf_pw_str(struct sf_pickle_writer *w, const char *s, size_t len);
void sf_pw_global(struct sf_pickle_writer *w, const char *module, const char *name);
void sf_pw_float(struct sf_pickle_writer *w, double d);
void sf_pw_long(struct sf_pickle_writer *w, const char *p, size_t len); /* two's complement */
/* Module and name with lengths; neither holds a newline. */
void sf_pw_global_n(struct sf_pickle_writer *w, const char *module, size_t module_len,
                    const char *name, size_t name_len);

#endif
