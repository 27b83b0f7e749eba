/* A session: SOURCE opened: what every verb, the mount and the library start from. */
#ifndef SF_LIB_SESSION_H
#define SF_LIB_SESSION_H

#include "format/format.h"
#include "read/reader.h"
#include "store/source.h"
#include "tree/tree.h"

/* Plain values, borrowed: whoever made them keeps them until the session is closed. */
struct sf_session_options {
	/* The process's, for the sessions that share it. NULL: the session starts one of its own,
	 * as the next lines say. */
	struct sf_io *io;
	uint64_t memory; /* bytes beyond the loaded metadata */
	unsigned threads, timeout_s;
	const struct sf_log *log;
	bool guard;   /* sf_guard_install was called: by programs, never by the library */
	int trace_fd; /* or -1 */

	struct sf_store_options store; /* of stores that are no directory */
	const char *source_format;     /* NULL: it is found out */
	bool complete;                 /* refuse a damaged checkpoint */
	bool runs;                     /* a run directory is opened too: sf_session.run */
	unsigned refresh_s;            /* of runs: how long what was seen holds; 0: for ever */
	const char *join_rules;        /* text, checked: struct sf_load_options has it; NULL */
	struct sf_view_options view;
};
void sf_session_options_init(struct sf_session_options *o);

/* What sessions can share, made as @o says: memory, threads, timeout_s, log, guard, trace_fd.
 * sf_io_release ends it. */
int sf_session_io(struct sf_io *io, const struct sf_session_options *o, struct sf_error *err);

struct sf_session {
	const struct sf_session_options *opt;
	struct sf_view_options view; /* opt's, with where the companions are filled in */
	char *hf_found;
	struct sf_store *hf_store; /* has the companions of hf/; NULL: none, or hf_why */
	char *hf_why;
	struct sf_io *io; /* opt's, or: */
	struct sf_io own_io;
	struct sf_store *store;
	struct sf_ckpt *ckpt;
	struct sf_catalog *catalog;
	struct sf_reader *reader;
	struct sf_tree *tree;
	/* SOURCE is a run directory: ckpt is an empty one, tree shows the steps; NULL: it is none */
	struct sf_run *run;
	struct sf_view_options run_view;
};
/*
 * sf_session_store starts the threads and opens SOURCE (whose name is absolute from then on), so a
 * daemon has forked before and changes its directory after; sf_session_load reads the checkpoint.
 * sf_session_open does both; where SOURCE is called latest and is none, it is that of the run around
 * it. On failure everything is closed and *s is { 0 }. Messages name SOURCE.
 */
int sf_session_store(struct sf_session *s, const struct sf_session_options *opt, const char *source,
                     struct sf_error *err);
int sf_session_load(struct sf_session *s, struct sf_error *err);
int sf_session_open(struct sf_session *s, const struct sf_session_options *opt, const char *source,
                    struct sf_error *err);
/* The checkpoint, or the run, in the directory @dir of @above's store. */
int sf_session_open_below(struct sf_session *s, const struct sf_session_options *opt,
                          const struct sf_session *above, const char *dir, struct sf_error *err);
void sf_session_close(struct sf_session *s);

#endif
