/* One read under way: from parts to bytes, by steps that never wait. Private to src/read. */
#ifndef SF_READ_OP_H
#define SF_READ_OP_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/buf.h"
#include "base/deadline.h"
#include "base/pages.h"
#include "read/coalesce.h"
#include "read/item_cache.h"
#include "read/layout.h"
#include "read/reader.h"
#include "store/open_files.h"
#include "store/fd_budget.h"

#define SF_OP_ITEMS 4096 /* of one batch */
/* lent runs of one read: with what is between them its iovecs stay below IOV_MAX */
#define SF_OP_LENT 480
/* Copies of an item that are planned at once, and entries of requests (ranges, iovecs, scatters) that
 * go out at once: a read whose item is strided in many dimensions has one for every few bytes. */
#define SF_OP_PIECES_MOST 16384
#define SF_OP_RUNS_MOST 65536
#define SF_LEND_MIN (4 << 10) /* bytes of a run from which lending costs less than a copy */

enum sf_part_kind {
	SF_PART_TENSOR,
	SF_PART_BOX, /* of a tensor, to places of the caller's (boxes.c); stored, it is bytes [0, n) */
	SF_PART_LISTED,
	SF_PART_OBJECT,
	SF_PART_OBJECT_LEN,
	SF_PART_SOURCE,
	SF_PART_MADE, /* of op->made, at off */
	SF_PART_BYTES /* of op->literal, at off */
};
struct sf_part {
	uint8_t kind;
	uint8_t cast;      /* enum sf_dtype, SF_DTYPE_NONE as stored */
	uint8_t via;       /* cast to this first: what a tensor is that is another's values */
	uint8_t cast_skip; /* bytes of the first cast element that are not asked for */
	uint32_t index;
	uint64_t dst, len;     /* bytes of the read */
	uint64_t off, n;       /* bytes of what is stored; with a cast whole elements around them */
	uint64_t cast_at;      /* where those n bytes are in op->cast */
	struct sf_source *src; /* SF_PART_SOURCE: a reference */
	uint8_t *place;        /* SF_PART_BOX: where its first element goes, the caller's memory */
	size_t box;            /* its numbers, in op->boxes */
};
SF_VEC(sf_part_list, struct sf_part);

SF_VEC(sf_u64s, uint64_t);

struct sf_parts {
	struct sf_op *op;
	uint64_t at; /* bytes said so far */
	uint64_t cast_bytes;
	uint32_t nsources; /* parts of SF_PART_SOURCE */
	uint32_t nboxes;   /* parts of SF_PART_BOX: all or none are */
	struct sf_part_list list;
};

struct sf_op_source {
	uint32_t key; /* of open_files: ckpt->file[], behind them ckpt->listing[]; SF_NONE: a part's
	                 own */
	struct sf_source *src;
};
SF_VEC(sf_op_sources, struct sf_op_source);

/* A stored item that a part touches. */
struct sf_op_item {
	uint32_t part;
	uint32_t chunk;  /* of the part's tensor; SF_NONE: an object's item, a listed file */
	size_t chunk_at; /* op->chunks.at[], when the part was cut into items */
	uint32_t source; /* op->sources.at[]; SF_NONE: there is no item, layout.fill is all of it */
	/* codec: what must be decoded to have it, the item itself or a stream that it lies in */
	uint8_t form, codec, streams;
	bool known;        /* the layout is */
	bool slow;         /* only the central directory tells */
	bool again;        /* it went back to wait its turn for memory: not in this batch */
	uint64_t off, len; /* bytes in its stored file; of a stream, all that */
	uint64_t room;     /* from off to the end of what it lies in, file or member */
	/* in a stream: that, and the item's bytes of what it has inside; NULL: it is in none */
	const struct sf_container *stream;
	uint64_t in_off, in_len;
	struct sf_item_layout layout;
	const struct sf_cached *mem; /* decoded, or a blob's header and what came with it */
	/* with a codec, once it is there: the item, in mem */
	const uint8_t *bytes;
	uint64_t nbytes;
	uint64_t passed;            /* bytes copied from there */
	uint64_t head_at, head_len; /* its first bytes, in op->head */
	/* bytes of it from ahead_off on, in op->head at ahead_at: asked for with its header */
	uint64_t ahead_at, ahead_off, ahead_len;
	/* bytes of it from placed_off on, asked for with its header and put where they belong if the
	 * payload begins where it mostly does: at placed_dst of the part's output */
	uint64_t placed_dst, placed_off, placed_len;
};
SF_VEC(sf_op_items, struct sf_op_item);

/* Lent bytes: @count runs of @len that lie side by side where they are lent and @step apart in the
 * read. */
struct sf_op_lease {
	uint64_t dst, len, count, step;
	struct sf_lease lease;
};
SF_VEC(sf_op_leases, struct sf_op_lease);

struct sf_op_req { /* a place of the window (fetch.c) */
	struct sf_io_req io;
	struct sf_op *op;
	struct sf_source *src; /* of its request, the last one; NULL: none yet */
	uint32_t file;         /* src's key: as sf_read.file */
	bool out;              /* the request has not come back */
	uint32_t item;
	size_t range;            /* of co.ranges */
	struct sf_pages scratch; /* while it is under way; charged */
};
struct sf_op_open {
	struct sf_task task;
	struct sf_op *op;
	uint32_t source;
};
struct sf_op_wait {
	struct sf_cache_wait wait;
	struct sf_op *op;
	uint32_t item;
};

/* clang-format off */
/*
 * A read, state by state: what is done in it, and where it goes on. The table is in steps.c, which
 * alone sets op->state.
 *
 *	BUFFERS     memory for the result; a read that may wait waits for it first
 *	MADE        what the view makes (value.json), COPY_MADE: to its place
 *	BATCH       the next items, at most so many of at most so many files; none: FINISH
 *	FILES       that many from the descriptor budget, OPEN: they are opened
 *	HEADERS     of items whose layout is not known: HEADER_IO fetches, PARSE reads them, again where
 *	            they are longer
 *	SLOW        layouts that only an archive's directory tells: its end, the directory, local headers
 *	            and data.pkl, round by round: SLOW_IO fetches, SLOW_PARSE reads them; none: CACHE
 *	CACHE       items that are taken whole (zstd, blobs): asked for; CACHED: they are there, or the
 *	            batch was cut to nothing: BATCH
 *	PIECES      copies and requests, as many as a read may hold; lent at once where that can be
 *	IO          all requests
 *	SETTLE      spans are scattered; where pieces are left: PIECES; signs flipped, files checked; then the
 *	            next BATCH
 *	FINISH      casts; DONE
 *
 *	   sf_read_start           steps, in the caller's thread: what would wait says -EAGAIN
 *	        | -EAGAIN          the op keeps all it has, and the state of the step that said so
 *	   sf_read_park            may_wait: that step again, from here on on any thread
 *	        | SF_STEP_WAITS    a completion goes on in the state set before (sf_read_resume)
 *	   done                    the steps have ended, or the thread of deadlines came before
 *
 * Who has what, once it is parked:
 *
 *	the op            two references: the sf_read's, until sf_read_release, and the steps', until
 *	                  they have ended. The last one gives it back to the free ones (op.c).
 *	its fields        of whoever runs the steps, one thread at a time; while it waits, of nobody: a
 *	                  completion touches its own place alone (a request, a file's source, what was
 *	                  granted), what op->m guards, and pending. The last one (pending is 0) runs the
 *	                  steps on.
 *	the sf_read       the caller's, whose done and result only that one touches who set claimed: the
 *	                  steps at their end, or the thread of deadlines in their place (late, cancelled).
 *	                  After that the steps end on their own, when what they wait for comes, and nobody
 *	                  looks at the sf_read any more.
 *	the caller's buf  written before it parks and by whoever claimed it, never by a completion: what
 *	                  was there moves to the op's own memory when it parks (sf_op_leave_caller).
 *	memory, files, items, leases    the op's: held while it waits, but that one that waits for its
 *	                  buffers holds nothing else: it lets its batch go and begins anew.
 */
/* clang-format on */
enum sf_op_state {
	SF_OP_BUFFERS,
	SF_OP_MADE,
	SF_OP_COPY_MADE,
	SF_OP_BATCH,
	SF_OP_FILES,
	SF_OP_OPEN,
	SF_OP_HEADERS,
	SF_OP_HEADER_IO,
	SF_OP_PARSE,
	SF_OP_SLOW,
	SF_OP_SLOW_IO,
	SF_OP_SLOW_PARSE,
	SF_OP_CACHE,
	SF_OP_CACHED,
	SF_OP_PIECES,
	SF_OP_IO,
	SF_OP_SETTLE,
	SF_OP_FINISH,
	SF_OP_DONE
};

/* A step's result: negative ends the read, 0 goes on with the next one. */
enum {
	SF_STEP_WAITS = 1, /* a completion goes on, maybe already, on another thread: nothing of
	                       the op may be touched */
	SF_STEP_OTHER      /* goes on with the other one of the table */
};

struct sf_op {
	struct sf_io *io;
	struct sf_reader *r;   /* of this read; a free one has none */
	struct sf_read *rd;    /* only whoever claimed the op may look at it after it was parked */
	_Atomic uint32_t refs; /* the sf_read's, and the steps' once it is parked */
	_Atomic bool claimed;  /* whoever sets it calls done */
	bool may_wait;         /* parked, or was */
	bool to_caller;        /* the result goes to a buffer: nothing is lent */

	uint64_t off, len;
	uint8_t *dst;    /* where byte 0 of the read goes: own, or the caller's buffer until it is
	                    parked; NULL: nothing has been put there */
	uint8_t *caller; /* the caller's buffer, until it is parked; NULL: there is none */
	/* own memory (buffer.c), kept for the next read */
	enum sf_budget_kind kind;  /* what it is charged as */
	uint64_t holds, charged;   /* bytes: there; taken from the budget, never less */
	struct sf_pages buf, cast; /* kept for the next read where they are small */
	uint64_t scratch;          /* bytes of pieces and of co that are counted in holds */
	bool no_room;              /* it may not wait, and there was no room for a buffer */
	struct sf_budget_wait buffers;
	struct sf_task go_on;

	struct sf_parts parts;
	struct sf_buf literal; /* what the view made, until there is a buffer */
	/* of a box: its first elements, those past its last, its places' steps */
	struct sf_u64s boxes;
	size_t staged_from; /* boxes of parts from this one on go through op->dst */
	struct sf_made *made;
	const struct sf_cached *made_item;
	struct sf_op_leases leases;
	uint32_t nlent;      /* runs of them */
	size_t lease0;       /* of leases: the batch's first */
	struct sf_iovs iovs; /* the result */

	/* where the next batch begins */
	size_t part_at, chunk_at;
	size_t chunk_first; /* where a part that is begun anew goes on */
	bool part_begun;
	bool alone; /* the next batch's first item that is not there is asked for without others */
	struct sf_u32s chunks; /* of that part */

	/* the batch: items of at most so many files */
	enum sf_op_state state;
	struct sf_op_sources sources;
	uint32_t last_source;
	struct sf_op_items items;
	size_t item_at;      /* the item whose pieces come next; all before have been asked for */
	uint64_t piece_skip; /* of its pieces, as many have been planned */
	size_t kept;         /* of pieces, from the first on: to be asked for yet */
	struct sf_piece_window window;
	struct sf_pieces pieces;
	struct sf_coalesce co;
	_Atomic size_t io_at; /* of co.ranges: the next one to ask for */
	struct sf_pages head;
	uint64_t head_bytes; /* in use */
	struct sf_op_open *opens;
	struct sf_op_wait *waits;
	struct sf_op_slow *slow; /* slow_headers.c; NULL: no item needs that */
	/* files of the batch, taken from the descriptor budget; 0: none, or not counted */
	uint32_t held;
	struct sf_fd_wait fds;

	_Atomic uint32_t pending; /* completions to come, and one for the step that starts them */
	pthread_mutex_t m;        /* guards the nine below: completions and cancelling meet there */
	bool waits_for_buffers;
	const char *waits_for_made;           /* what that is, for messages; NULL */
	struct sf_cache_wait *waits_for_item; /* that waits its turn */
	_Atomic bool asked_far; /* what it waited for did not lie on this machine: sf_read.far */
	int failed; /* first failure of a completion, message in err, its file in bad_file */
	struct sf_op_req *reqs;
	unsigned reqs_cap;
	unsigned nreqs; /* places in use */
	struct sf_error err;
	uint32_t bad_file; /* that err is about: as sf_read.file */

	struct sf_op *next; /* free: under the lock of those */
	struct sf_deadline deadline;
	int64_t parked_ns;
	/* from when its deadline counts; 0: its clock stands, it waits for memory alone */
	_Atomic int64_t clock_ns;
};

/* What all readers of an sf_io share; sf_io has it for them. */
struct sf_read_shared {
	struct sf_io *io;
	struct sf_item_cache *items;
	struct sf_budget_reclaim reclaim; /* of free ops' buffers */
	struct {
		pthread_mutex_t m;
		struct sf_op *free; /* ops that no read has, with their buffers */
		unsigned nfree;
		uint64_t free_bytes;
	} locked;
};

struct sf_reader {
	/* sf_read_resume. By pointer, it cuts a circle: read.c runs steps, they start completions,
	 * the last of which (async.c) goes on in read.c */
	void (*resume)(struct sf_op *op);
	const struct sf_ckpt *ckpt;
	struct sf_store *store;
	struct sf_io *io;
	struct sf_layouts *layouts;
	struct sf_read_shared *shared;
	struct sf_item_cache *items; /* shared->items */
	struct sf_item_owner owner;  /* of this reader's items there */
	uint32_t id;                 /* among the readers of its io */
	_Atomic uint64_t made;       /* numbers of sf_made */
	_Atomic uint64_t ahead;      /* the most that a source's hints say */
	_Atomic uint32_t usual_head; /* the longest ordinary header of an item so far; 0: none */
	_Atomic unsigned live;       /* its ops; fewer only under the lock */
	struct {
		pthread_mutex_t m;
		pthread_cond_t all_idle; /* live is 0 */
		bool ending;             /* reads of what a view makes end at once */
	} locked;
};

/* read.c */
void sf_read_resume(struct sf_op *op); /* after the last completion */

/* shared.c: made with the first reader of @io, gone with the last one that puts it back */
int sf_read_shared_get(struct sf_io *io, struct sf_read_shared **ret, struct sf_error *err);
void sf_read_shared_put(struct sf_read_shared *s);

/* steps.c */
void sf_op_steps_begin(struct sf_op *op); /* from the first one on */
int sf_op_steps(struct sf_op *op);        /* 0 done, SF_STEP_WAITS, or negative with op->err */

/* parts.c */
int sf_op_begin(struct sf_op *op, struct sf_read *rd); /* the view says its parts */
/* The tensor whose items are read for @tensor: itself, or that whose values it is. *cast: none becomes
 * its own dtype; *ret_via as struct sf_part has it. */
uint32_t sf_part_source(const struct sf_ckpt *ckpt, uint32_t tensor, enum sf_dtype *cast,
                        uint8_t *ret_via);
int sf_parts_add(struct sf_parts *p, struct sf_part part);
/* The length of an object's item after its transform, as 8 bytes in the machine's order. */
int sf_parts_object_len(struct sf_parts *p, uint32_t object);

/* op.c: an op's life */
struct sf_op *sf_op_get(struct sf_reader *r); /* NULL: no memory */
void sf_op_unref(struct sf_op *op);
void sf_op_free(struct sf_op *op);
int sf_op_take_buffers(struct sf_op *op);
void sf_op_let_batch_go(struct sf_op *op);
bool sf_op_wants_buffers(const struct sf_op *op); /* more than it has? */

/* buffer.c: the read's own memory */
uint8_t *sf_op_dst(struct sf_op *op); /* NULL: no memory, or no_room */
uint8_t *sf_op_cast_buf(struct sf_op *op);
/* what is in the caller's buffer moves to its own; -ENOMEM */
int sf_op_leave_caller(struct sf_op *op);
#define SF_OP_BUF_KEPT \
	(2u << 20) /* bytes of buffers that stay with an op: a kernel asks for 1 MiB */
uint64_t sf_op_rounded(uint64_t len);             /* bytes that a buffer of @len takes */
void sf_op_holds(struct sf_op *op, int64_t more); /* bytes more than it did, or fewer */
void sf_op_settle(struct sf_op *op);              /* gives back what was taken and is not held */
void sf_op_set_kind(struct sf_op *op, enum sf_budget_kind kind);
void sf_op_count_scratch(struct sf_op *op);
void sf_op_free_buffers(struct sf_op *op);

/* boxes.c: boxes of tensors. Places are the caller's memory, touched by whoever may wait for
 * nobody, or has claimed the op; a parked read puts its bytes into its own first. */
int sf_op_plan_box_chunks(struct sf_op *op, const struct sf_part *part);
int sf_op_plan_box_item(struct sf_op *op, const struct sf_part *part,
                        uint32_t item); /* to op->pieces */
/* Where byte 0 of the pieces' output is. NULL: as sf_op_dst. */
uint8_t *sf_op_box_dst(struct sf_op *op, const struct sf_part *part);
/* It may wait from now on: what is not whole begins anew, after its batch was dropped. */
void sf_op_stage_boxes(struct sf_op *op);
void sf_op_place_boxes(struct sf_op *op); /* the result, from its own memory to the places */

/* made.c: what a view makes */
int sf_op_ask_made(struct sf_op *op);
int sf_op_copy_made(struct sf_op *op);

/* batch.c: which items come next */
int sf_op_next_batch(struct sf_op *op);                /* SF_STEP_OTHER: none */
void sf_op_cut_batch(struct sf_op *op, uint32_t item); /* it and those behind it come in the next */
/* The batch is begun anew by the next step: its items, files and leases go. */
void sf_op_drop_batch(struct sf_op *op);

/* files.c: the descriptor budget lets them be held, and they are opened */
int sf_op_take_files(struct sf_op *op);
void sf_op_give_files(struct sf_op *op); /* the batch has let its files go */
int sf_op_open(struct sf_op *op);

/* headers.c: layouts, from the items' own headers */
int sf_op_ask_headers(struct sf_op *op); /* SF_STEP_OTHER: some are to be fetched */
/* Bytes [*from, *end) of item @i's payload hold all that is wanted of it, if it is dense. false:
 * nothing is, or runs that lie far apart: those are asked for when it is known where. */
bool sf_op_wanted(struct sf_op *op, uint32_t i, uint64_t *from, uint64_t *end);
/* Bytes of an item from @at on that came with its header, as many as *ret_len; NULL: none. */
const uint8_t *sf_op_ahead(const struct sf_op *op, const struct sf_op_item *item, uint64_t at,
                           uint64_t *ret_len);
int sf_op_parse_headers(struct sf_op *op); /* SF_STEP_OTHER: some are longer */
/* Checks a found header against metadata and makes the layout known to all. */
int sf_op_publish(struct sf_op *op, struct sf_op_item *item, const struct sf_torch_item *head);

/* slow_headers.c: layouts that only an archive's directory tells */
int sf_op_ask_slow(struct sf_op *op); /* SF_STEP_OTHER: some of it is to be fetched */
int sf_op_parse_slow(struct sf_op *op);
void sf_op_slow_free(struct sf_op *op);

/* whole_items.c: items that are taken whole */
int sf_op_ask_cache(struct sf_op *op);
int sf_op_use_cached(struct sf_op *op); /* SF_STEP_OTHER: none was left of the batch */

/* assemble.c: bytes to their places */
/* Where byte 0 of a part's stored bytes goes. NULL: as sf_op_dst. */
uint8_t *sf_op_part_dst(struct sf_op *op, const struct sf_part *part);
int sf_op_make_pieces(struct sf_op *op);
int sf_op_settle_batch(struct sf_op *op); /* all of it has come; SF_STEP_OTHER: pieces are left */
int sf_op_finish(struct sf_op *op);
int sf_op_result(struct sf_op *op, void *buf); /* op->iovs, or all into @buf; -ENOMEM */

/* fetch.c */
int sf_op_io(struct sf_op *op); /* all of op->co.ranges */

/* async.c: around starting completions */
void sf_op_async_begin(struct sf_op *op);
int sf_op_async_end(struct sf_op *op); /* 0: all came already; SF_STEP_WAITS */
/* @file: that a failure is about, as sf_read.file */
void sf_op_completed(struct sf_op *op, int r, const struct sf_error *err, uint32_t file);
void sf_op_go_on_later(struct sf_op *op); /* on a thread of the pool */
/* It waits for memory from now on, or does not any more. Under any lock. */
void sf_op_clock(struct sf_op *op, bool stands);
void sf_op_cancel_io(struct sf_op *op); /* any thread that holds a reference */
/* After it began to wait for memory: whoever canceled it may have come before. */
void sf_op_cancel_late(struct sf_op *op);

/* op_fail.c */
const struct sf_tensor *sf_op_tensor(const struct sf_op *op, const struct sf_op_item *item);
/* ckpt->place[] of it, and the byte of that place's container; SF_NONE: it has none. */
uint32_t sf_op_place(const struct sf_op *op, const struct sf_op_item *item, uint64_t *ret_off);
/* What it is of, for messages: "tensor 'x', chunk 3", "object 'y'"; a member is named. "" for what
 * has no key. */
#define SF_OP_WORDS 512
const char *sf_op_words(const struct sf_op *op, const struct sf_op_item *item,
                        char text[SF_OP_WORDS]);
/* Words about it before op->err, and its file to op->bad_file. */
int sf_op_fail_item(struct sf_op *op, const struct sf_op_item *item, int r);
/* Words about where an item lies, then which one it is. */
int sf_op_fail_at(struct sf_op *op, struct sf_op_item *item, int r);
/* Milliseconds that a read may wait for memory. */
uint64_t sf_op_turn_ms(const struct sf_io *io);
/* -ETIMEDOUT of @rd, which was answered in place of its steps: they may be going on. */
int sf_op_fail_late(struct sf_op *op, struct sf_read *rd);

#endif
