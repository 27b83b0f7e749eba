/* The filesystem operations: libfuse's low-level API over the virtual tree. */
#ifndef SF_FUSE_FS_OPS_H
#define SF_FUSE_FS_OPS_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <pthread.h>
#include "fuse/open_table.h"
#include "read/readahead.h"
#include "fuse/slot.h"

/* Requests of 1 MiB; the same number as a mount option, which libfuse compares. */
#define SF_FS_MAX_READ 1048576
#define SF_FS_MAX_READ_OPTION "max_read=1048576"

/* Kernel timeouts inside a checkpoint, seconds: nothing in it ever changes. */
#define SF_FS_FOREVER 1e8

struct sf_parked_request;
struct sf_waiting;
struct sf_handle;

/* One mount. Fields without a lock are set before the first request and then only read. */
struct sf_fs {
	struct sf_slots slots; /* the checkpoints; slot 0 has the root */
	struct sf_io *io;      /* that their sessions share */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	/* The kernel's readahead, bytes, which it also reads around each page of a mapping that is
	 * touched; 0: its own. Ours (readahead.h) fetches nothing of a file that is not read. */
	uint64_t readahead;
	unsigned request_timeout_s; /* after which the kernel gives us up; 0: never */
	unsigned size_timeout_s;    /* after which who waits for a size is told so; 0: never */
	struct sf_open_table open;
	/* Sizes views. Its tasks wait for reads, which may wait for what tasks of io->make make, and
	 * end on io->pool: not one of those. */
	struct sf_thread_pool *sizers;
	/* Of a run: what loads its steps, looks at it again, ends what was loaded. NULL: it is
	 * none. */
	struct sf_thread_pool *loaders, *lookers, *closers;
	struct sf_session_options step; /* that steps are loaded with */
	bool passthrough; /* the kernel agreed to serve shards/ itself (kernel_init.h) */
	int session_fd;
	_Atomic bool closed; /* the device is: replies are dropped */
	int ready_fd; /* one byte is written when the kernel's INIT was answered; -1 afterwards */
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		struct sf_parked_request
			*first; /* reads that wait: cancelled when the mount ends */
		unsigned n;
		unsigned nwaiting;              /* requests that wait for a size or a load */
		struct sf_waiting *waiting;     /* these */
		struct sf_waiting *interrupted; /* of these: the client gave up, to be answered */
		struct sf_handle *handles;      /* open files */
		bool ending;
	} locked;
};

extern const struct fuse_lowlevel_ops sf_fs_ops;

/* Ends the parked requests and waits for their replies; what would be parked from now on is
 * refused. */
void sf_fs_drain(struct sf_fs *fs);
/* Answers what was interrupted while it waited. Each receiving thread calls it behind each
 * request. */
void sf_fs_answer_interrupted(struct sf_fs *fs);
/* Those who have waited for a size or a load for too long get EIO; that itself goes on, for who asks
 * next. */
void sf_fs_answer_late(struct sf_fs *fs);
/* Waits for the sizing and loading that is under way: at most until its reads' deadlines. Their
 * replies find the device closed. */
void sf_fs_wait(struct sf_fs *fs);

/*
 * A request that a thread other than its own answers, with what it waits for. It is answered once:
 * by who is done with that, or before, when its client gave up or has waited for too long.
 */
struct sf_waiting {
	struct sf_fs *fs;
	fuse_req_t req;
	void (*free)(struct sf_waiting *w);
	_Atomic unsigned refs;
	_Atomic bool answered; /* whoever sets it replies */
	struct timespec since;
	/* under fs->locked.m */
	bool registered;              /* libfuse is done with the request's lock */
	int code;                     /* errno of whoever is answered before that is done */
	struct sf_waiting *next;      /* in fs->locked.interrupted */
	struct sf_waiting *back, *on; /* in fs->locked.waiting */
};
/* fs_wait.c: @w is all 0. */
void sf_fs_wait_begin(struct sf_fs *fs, struct sf_waiting *w, fuse_req_t req,
                      void (*free)(struct sf_waiting *w));
bool sf_fs_wait_take(struct sf_waiting *w); /* true: the caller is to answer */
/* The caller is done with it, and has answered if it was to. */
void sf_fs_wait_end(struct sf_waiting *w, bool answered);

/* An open file: what fi->fh points to. */
struct sf_handle {
	struct sf_slot *slot;  /* a reference */
	struct sf_vfile *file; /* NULL for a live file */
	char *text;            /* a live file's content as of its opening */
	size_t text_len;
	uint64_t size;
	struct sf_readahead
		*ahead; /* the file's; NULL: of a store that is not far, of a live file */
	struct sf_handle *prev, *next; /* of the mount's, under its lock */
};

/* fs_read.c: answered in the calling thread when it need not wait, else parked and answered by
 * whoever completes it. */
void sf_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);

/* fs_dir.c */
void sf_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                   struct fuse_file_info *fi);
void sf_fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi);

/* fs_open.c */
void sf_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void sf_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* Those that the mount's end left open: nobody will release them. No request may be under way. */
void sf_fs_free_handles(struct sf_fs *fs);

/* fs_size.c: attributes, at once or when the file's objects were read for its size. */
mode_t sf_fs_type_bits(enum sf_node_type type);
void sf_fs_fill_entry(const struct sf_fs *fs, const struct sf_slot *slot, sf_node node,
                      const struct sf_attr *a, struct fuse_entry_param *e);
/* Replies with an entry (@lookup) or attributes. */
void sf_fs_answer_attr(struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot, sf_node node,
                       bool lookup);
/*
 * Has an open's file sized by one of fs->sizers, then calls @then once, with what came of it. @req
 * is NULL there if it has been answered meanwhile: @h is to be let go.
 */
typedef void sf_fs_sized(struct sf_fs *fs, fuse_req_t req, struct sf_handle *h,
                         struct fuse_file_info *fi, int r, const struct sf_error *err);
void sf_fs_size_open(struct sf_fs *fs, fuse_req_t req, sf_node node, struct sf_handle *h,
                     const struct fuse_file_info *fi, sf_fs_sized *then);

/* fs_fail.c: what a client is told in place of bytes, a size or an open file is counted. */
void sf_fs_count_failure(struct sf_fs *fs, int code);
/* A failure of @thing, for the log: alike are those of one kind, code and thing
 * (log_limit.h). */
__attribute__((format(printf, 5, 6))) void sf_fs_log_failure(struct sf_fs *fs, const char *kind,
                                                             int code, uint64_t thing,
                                                             const char *fmt, ...);
/* The errno a client sees for one of our codes. */
int sf_fs_errno(int code);

#endif
