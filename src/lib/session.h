/* A session: SOURCE opened with the common options: what every verb and the mount start from. */
#ifndef SF_LIB_SESSION_H
#define SF_LIB_SESSION_H

#include "format/format.h"
#include "read/reader.h"
#include "store/source.h"
#include "tool/options.h"
#include "tree/tree.h"

/* Options that every verb and the mount know (design section 2, "Common"), and those that choose
 * what is shown. */
struct sf_common {
	const char *source_format;
	uint64_t memory;
	unsigned threads, timeout_s;
	bool quiet, complete;
	const char *log_file;
	struct sf_view_options view;
	bool hold_hf;        /* the mount: find the companions by descriptor, it may lie below the
	                        mountpoint */
	struct sf_log log;   /* set up by sf_common_init: stderr or log_file, level by name */
	struct sf_strs kept; /* lines of config files that the options point into; malloc'ed */
	bool guard;          /* sf_guard_install was called: by programs, never by the library */
	int trace_fd;        /* SF_TRACE's file, or -1 */
};
extern const struct sf_opt sf_common_options[], sf_view_option_table[];
void sf_common_init(struct sf_common *o);
/* What only a program may do for its process: a SIGBUS handler (store/guard.h), its limit of open
 * files, the file named by SF_TRACE: one that cannot be opened is an error in the log, and no more,
 * as git's GIT_TRACE. After sf_common_init. */
void sf_common_program(struct sf_common *o);
void sf_common_release(struct sf_common *o);

struct sf_session {
	const struct sf_common *opt;
	struct sf_view_options view; /* opt's, with hf_files_found filled in */
	char *hf_found;
	int hf_fd; /* of hf_files when held by descriptor; valid where hf_held */
	bool hf_held;
	struct sf_io io;
	struct sf_store *store;
	struct sf_ckpt *ckpt;
	struct sf_catalog *catalog;
	struct sf_reader *reader;
	struct sf_tree *tree;
};
/*
 * sf_session_store starts the threads and opens SOURCE (whose name is absolute from then on), so a
 * daemon has forked before and changes its directory after; sf_session_load reads the checkpoint.
 * sf_session_open does both. On failure everything is closed and *s is { 0 }. Messages name SOURCE.
 */
int sf_session_store(struct sf_session *s, const struct sf_common *opt, const char *source,
                     struct sf_error *err);
int sf_session_load(struct sf_session *s, struct sf_error *err);
int sf_session_open(struct sf_session *s, const struct sf_common *opt, const char *source,
                    struct sf_error *err);
void sf_session_close(struct sf_session *s);

#endif
