/*
 * shardfuse: distributed saves of sharded checkpoints from C. Link with -lshardfuse.
 *
 * A save is made by all ranks of a communicator: each begins one, adds the pieces of tensors and the
 * values that it has, and all commit. What comes out is one checkpoint that torch.distributed.checkpoint
 * (or Megatron-Core, OLMo-core, transformers: the format) loads, and that shardfuse(1) mounts, at once:
 * it appears whole under its name or not at all.
 *
 * Functions return 0 or more on success and negative errno on failure, with a message in @err. What
 * one rank fails at fails on all of them, with the same message, which names the rank.
 *
 * Structs begin with struct_size as in shardfuse.h (SHARDFUSE_INIT). Shapes, offsets and strides are
 * in elements, sizes and lengths in bytes. Nothing is printed, nothing exits.
 *
 * Threads: a handle belongs to one thread at a time. Different handles of different communicators are
 * independent.
 *
 * An example, of one rank that has all of a tensor. With more of them each would give its communicator
 * to begin, and its own offset, extent and bytes to add_tensor:
 *
 *	#include <shardfuse_save.h>
 *	#include <stdio.h>
 *
 *	int main(int argc, char **argv)
 *	{
 *		struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
 *		const uint64_t shape[2] = { 2, 3 };
 *		const float w[6] = { 0, 1, 2, 3, 4, 5 };
 *		struct shardfuse_error err;
 *		struct shardfuse_save *s;
 *		int r;
 *
 *		if (argc != 2) {
 *			fprintf(stderr, "usage: %s TARGET\n", argv[0]);
 *			return 2;
 *		}
 *		t.key = "model.w";
 *		t.dtype = "float32";
 *		t.ndim = 2;
 *		t.shape = shape;
 *		t.at = w;
 *		r = shardfuse_save_begin(argv[1], NULL, NULL, &s, &err);
 *		if (r >= 0) {
 *			r = shardfuse_save_add_tensor(s, &t, &err);
 *			if (r >= 0)
 *				r = shardfuse_save_add_json(s, "step", "100", &err);
 *			if (r >= 0)
 *				r = shardfuse_save_commit(s, &err);
 *			shardfuse_save_free(s);
 *		}
 *		if (r < 0)
 *			fprintf(stderr, "%s\n", err.msg);
 *		return r < 0;
 *	}
 */
#ifndef SHARDFUSE_SAVE_H
#define SHARDFUSE_SAVE_H

#include "shardfuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- communicators ---- */

/*
 * How ranks reach each other: messages between two of them. shardfuse_mpi.h makes one of an MPI_Comm;
 * shardfuse_comm_self and shardfuse_comm_threads are below. The library makes trees of it: a rank
 * talks to its parent and its children, 9 others at most, not to all.
 *
 * Messages from one rank to another with one tag arrive in the order they were sent, whole.
 */
struct shardfuse_comm {
	size_t struct_size;
	void *arg;
	uint32_t rank, size;
	/* @at is the caller's again on return; the other need not have received it. */
	int (*send)(void *arg, uint32_t to, uint32_t tag, const void *at, size_t len,
	            struct shardfuse_error *err);
	/* The next one from @from: *ret is malloc'ed. Waits up to @timeout_ms (0: not at all):
	 * -EAGAIN there was none. */
	int (*recv)(void *arg, uint32_t from, uint32_t tag, void **ret, size_t *ret_len,
	            unsigned timeout_ms, struct shardfuse_error *err);
	/* Not 0: send and recv may be called by another thread than the caller's, while the caller
	 * communicates. 0: an asynchronous save communicates in test and wait alone. */
	int threads;
	/* What @arg needs when the communicator goes; NULL: nothing. */
	void (*free)(void *arg);
	/* Beside @arg, 0 at first, the library's alone: the tag that the rank's next save begins with,
	 * so that no message of a save that failed meets a later one. All ranks begin as many saves.
	 * NULL: tags begin at a hash of the target, and after a failure the communicator is made anew. */
	uint32_t *tag;
	/* Waits up to @timeout_ms until what was sent arrives without further calls: -EAGAIN some
	 * does not yet. NULL: it always does. */
	int (*flush)(void *arg, unsigned timeout_ms);
};
/* The communicator of one. */
SHARDFUSE_API void shardfuse_comm_self(struct shardfuse_comm *ret);
/* One for each of @n threads of this process, ret[0 … n - 1]: freed with shardfuse_comm_free each. */
SHARDFUSE_API int shardfuse_comm_threads(uint32_t n, struct shardfuse_comm *ret,
                                         struct shardfuse_error *err);
/* Calls its free, if it has one. NULL is fine. */
SHARDFUSE_API void shardfuse_comm_free(struct shardfuse_comm *comm);

/* ---- values: what is pickled ---- */

/*
 * A value being built; it belongs to its shardfuse_values and goes with them. A value stands in one
 * container only. Functions that make one return NULL when there is no memory; what is given a NULL
 * then returns -ENOMEM, so one check at the end is enough.
 */
struct shardfuse_values;
struct shardfuse_value;
SHARDFUSE_API struct shardfuse_values *shardfuse_values_new(void);
SHARDFUSE_API void shardfuse_values_free(struct shardfuse_values *vs); /* NULL is fine */
SHARDFUSE_API struct shardfuse_value *shardfuse_value_none(struct shardfuse_values *vs);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_bool(struct shardfuse_values *vs, int v);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_int(struct shardfuse_values *vs, int64_t v);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_float(struct shardfuse_values *vs, double v);
/* UTF-8; NULL also: it is none */
SHARDFUSE_API struct shardfuse_value *shardfuse_value_str(struct shardfuse_values *vs,
                                                          const char *s, size_t len);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_bytes(struct shardfuse_values *vs,
                                                            const void *at, size_t len);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_list(struct shardfuse_values *vs);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_tuple(struct shardfuse_values *vs);
SHARDFUSE_API struct shardfuse_value *shardfuse_value_dict(struct shardfuse_values *vs);
/* torch.float32 of "float32"; NULL also: no such dtype */
SHARDFUSE_API struct shardfuse_value *shardfuse_value_dtype(struct shardfuse_values *vs,
                                                            const char *dtype);
/* torch.Size; 64 dimensions at most, else NULL */
SHARDFUSE_API struct shardfuse_value *shardfuse_value_size(struct shardfuse_values *vs,
                                                           const uint64_t *dim, size_t ndim);
/* to the end of a list or tuple; -EINVAL @to is none, @v stands somewhere already, or @to in it */
SHARDFUSE_API int shardfuse_value_append(struct shardfuse_value *to, struct shardfuse_value *v);
/* into a dict: each key once (-EEXIST; 1 and True are one key), and no list or dict for a key (-EINVAL) */
SHARDFUSE_API int shardfuse_value_set(struct shardfuse_value *dict, struct shardfuse_value *key,
                                      struct shardfuse_value *v);
/* JSON text as plain values: object → dict of str, array → list, integers of up to 64 bits → int (larger
 * ones are refused), other numbers → float. NULL: @err says why. */
SHARDFUSE_API struct shardfuse_value *shardfuse_value_json(struct shardfuse_values *vs,
                                                           const char *json, size_t len,
                                                           struct shardfuse_error *err);

/* ---- what saves share ---- */

/*
 * Staging memory and the plan, kept from one save to the next: a second save of the same structure
 * exchanges hashes instead of plans, and stages in the same memory. One asynchronous save at a time goes
 * through it. Outlives the saves begun with it.
 */
struct shardfuse_save_keep;
SHARDFUSE_API int shardfuse_save_keep_new(struct shardfuse_save_keep **ret,
                                          struct shardfuse_error *err);
SHARDFUSE_API void shardfuse_save_keep_free(struct shardfuse_save_keep *keep); /* NULL is fine */
/*
 * What this rank's saves through @keep have done so far, in the text format that Prometheus reads:
 * shardfuse_save_phases_total{phase,outcome}, shardfuse_save_seconds_total{phase} and
 * shardfuse_save_bytes_total{phase}; phases are plan, stage, write, commit. NUL-terminated; free with
 * shardfuse_free. Any thread, also while a save is under way. -ENOMEM.
 */
SHARDFUSE_API int shardfuse_save_keep_counters(const struct shardfuse_save_keep *keep, char **ret,
                                               struct shardfuse_error *err);

/* ---- a save ---- */

enum shardfuse_overwrite {
	SHARDFUSE_REFUSE, /* a target that is there and not an empty directory: -EEXIST */
	/* A checkpoint there is replaced, in one step where the file system can: everything in its
	 * directory goes. What is no checkpoint is refused all the same. */
	SHARDFUSE_REPLACE,
};
enum shardfuse_dedup {
	SHARDFUSE_DEDUP_LOWEST,   /* what several ranks have, the lowest writes */
	SHARDFUSE_DEDUP_BALANCED, /* the one that writes least so far */
};

struct shardfuse_save_options {
	size_t struct_size;
	/*
	 * "dcp" (NULL): torch.distributed.checkpoint's.
	 * "olmo": OLMo-core's step directory; train/rankR.pt are the caller's, by add_file.
	 * "megatron": Megatron-Core's torch_dist. Objects are sharded objects, "KEY/shard_INDEX_COUNT"
	 *   ("/shard_0_1" is put behind a key without), in a list of one; an archive of the caller's has
	 *   that list already. The object "common" is the common state: a dict, of all ranks alike.
	 */
	const char *format;
	int overwrite; /* enum shardfuse_overwrite */
	int dedup;     /* enum shardfuse_dedup */
	/* each rank writes so many files, with a thread each; 0: 1 */
	unsigned files_per_rank;
	/* bytes of host memory for what was copied and is not yet written; an item that is larger
	 * passes alone; 0: commit: 256 MiB, commit_async: what this rank's items take */
	uint64_t staging;
	/* ms that a rank waits for another to come to commit, and for a directory made elsewhere to
	 * appear; 0: 120,000 */
	unsigned timeout_ms;
	/* ms that it waits for the others' shards to be written; 0: 1,800,000 */
	unsigned write_timeout_ms;
	int no_fsync; /* not 0: durable is what the system writes back in its time */
	int zstd; /* not 0: items are compressed, at this level; dcp alone, torch 2.7 reads it */
	int manifest; /* not 0: .shardfuse-manifest.json with size and SHA-256 of each shard */
	/* A second asynchronous save through one keep while another is under way: 0 waits for it,
	 * else -EBUSY; so it is in any case where the first waits for its test and wait. */
	int refuse_busy;
	struct shardfuse_save_keep *keep; /* NULL: of its own */
	/* A JSON object a line for each phase that ended: phase, rank, ms, bytes, outcome. Any
	 * thread. NULL: none. */
	void (*log)(void *arg, const char *line);
	void *log_arg;
	/* Of a template target: "runs/{run_name}/step{batch}"; an unknown variable is -EINVAL.
	 * nvariable pairs of a name and its text. {rank} and {world_size} are known besides. None: braces
	 * in the target are characters like others. */
	const char *const *variable;
	size_t nvariable;
	/* olmo's .metadata.json; NULL: {"ephemeral": false, "version": "2.5.0"} */
	const char *format_metadata;
	/* Of a target in a bucket: where it is, as whom it is written, what it may take (endpoint_url,
	 * region, profile, ca_bundle, addressing, no_sign_request, request_payer, user_project,
	 * memory, threads, timeout_ms, log). NULL: as the environment and the user's files say. */
	const struct shardfuse_context_options *store;
};

struct shardfuse_save;
struct shardfuse_save_request;

/*
 * shardfuse_save_begin - begin a save of @target: a directory's path, or s3://BUCKET/PREFIX or
 * gs://BUCKET/PREFIX.
 *
 * A bucket: below the prefix is nothing yet, or what a killed save has left, which goes. Each shard goes up
 * in parts while it is written, under a name with the save's own token ("__0_0-0123abcd.distcp", which
 * .metadata says), and .metadata comes last: of several saves of one prefix the one that creates it wins (one that sees
 * that a later one has begun gives up before), the others fail. A checkpoint there is not replaced, and there is no manifest (-ENOTSUP).
 *
 * Local: no rank waits for another, nothing is made yet. @comm is copied (NULL: the communicator of
 * one), what its arg points to outlives the save. @opt may be NULL, and nothing but keep, log and
 * log_arg is needed after the call.
 * Errors: -EINVAL an option, a target that is no path; -ENOTSUP another URL, or what a bucket does not
 * have; -ENOMEM.
 */
SHARDFUSE_API int shardfuse_save_begin(const char *target, const struct shardfuse_save_options *opt,
                                       const struct shardfuse_comm *comm,
                                       struct shardfuse_save **ret, struct shardfuse_error *err);

/* Where a key stands in the nested state dict that dcp.load gives back: a str or an index of a list. */
struct shardfuse_save_step {
	const char *name; /* NULL: @index */
	uint64_t index;
};

/*
 * Where a tensor lies. CUDA memory (of a GPU; managed or pinned too) is copied to pinned buffers within
 * options.staging, on a stream of the library's own. The CUDA runtime is found when the first such tensor
 * is written: libcudart.so.13, .12 or .11.0, or what the environment's SHARDFUSE_CUDART names. Without
 * it, a driver or a GPU commit fails with -ENOTSUP and what is missing; tensors in the host's memory
 * need none of it. Where CUDA can tell that memory is not where it was said, commit fails with -EINVAL.
 *
 * Any GPU of the process; the caller's current one stays as it is, and no other is touched. Rows of a
 * strided tensor are copied one by one: short ones (a transposed matrix) are slow, and better made
 * contiguous before. No cudaDeviceReset between saves.
 */
enum shardfuse_device {
	SHARDFUSE_HOST,
	SHARDFUSE_CUDA,
	SHARDFUSE_CALLER, /* that only the caller can copy from: shardfuse_staging */
};

/*
 * Memory of another kind (another accelerator's, or of an allocator of the caller's own), and how its bytes
 * come to the host. Called by threads of the library, several at once; from commit on, until the save has
 * ended. Those that return int: 0, or negative errno with a message in @err, which becomes the save's.
 */
struct shardfuse_staging {
	size_t struct_size;
	void *arg;
	/* Begins to copy @n runs of @run bytes, @step apart at @from, side by side to @to, after what is
	 * queued on the tensor's stream. *copy: for sync, which is called once for it; left NULL: all is
	 * there already. After a failure nothing of it is on its way. */
	int (*stage)(void *arg, void *to, const void *from, uint64_t run, uint64_t step, uint64_t n,
	             void *stream, void **copy, struct shardfuse_error *err);
	/* Waits until the bytes of @copy are there; it is given back. NULL: stage never begins one. */
	int (*sync)(void *arg, void *copy, struct shardfuse_error *err);
	/* Host memory of @len bytes that such copies are fast to, aligned to 4,096; NULL: there is none.
	 * release gives it back. Both NULL: the library's own memory. */
	void *(*alloc)(void *arg, size_t len);
	void (*release)(void *arg, void *at, size_t len);
};

/* A piece of a tensor: a box of it that this rank has. */
struct shardfuse_save_tensor {
	size_t struct_size;
	/* fully qualified name; NULL: the path's steps joined by '.', which is what torch's loaders
	 * want it to be */
	const char *key;
	size_t key_len;                         /* 0: to the NUL */
	const struct shardfuse_save_step *path; /* NULL: one step, the key */
	size_t npath;
	const char *dtype; /* torch's word: "bfloat16" */
	unsigned ndim;
	const uint64_t *shape; /* of the whole tensor, the same on all ranks */
	/* The box: elements [offset, offset + extent) of each dimension. NULL offset: zeros; NULL
	 * extent: to the end. Boxes of a tensor on several ranks are the same (replicated: one rank
	 * writes it) or apart, and all of them together are the whole tensor. */
	const uint64_t *offset, *extent;
	/* of the memory, elements; 0 or more; NULL: the box is dense, row-major */
	const uint64_t *stride;
	/* The box's first element. Host memory: the caller's until commit, or until commit_async has
	 * returned, unchanged. */
	const void *at;
	int device; /* enum shardfuse_device */
	/* Of CUDA memory: the bytes are there after what is queued on it when the save is committed. A
	 * cudaStream_t of the same GPU (NULL: its default one); not cudaStreamPerThread, which is
	 * another one in each thread, nor one that is being captured. */
	void *stream;
	int requires_grad; /* as torch would record it of a parameter */
	/* NULL at: bytes [off, off + len) of the dense box, at save time; a thread of the library,
	 * one at a time for one tensor, in order. Returns 0 or negative errno. */
	int (*provide)(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *err);
	void *provide_arg;
	/* of SHARDFUSE_CALLER; copied. One struct for all tensors of a kind: eight different ones a save
	 * at most */
	const struct shardfuse_staging *staging;
};
/* Errors: -EINVAL dtype, box outside of the shape, a key with a NUL, more than SHARDFUSE_DIMS_MAX
 * dimensions; the same box twice. Nothing but @t->at and provide_arg is needed after the call. */
SHARDFUSE_API int shardfuse_save_add_tensor(struct shardfuse_save *s,
                                            const struct shardfuse_save_tensor *t,
                                            struct shardfuse_error *err);
/* Elements [start, stop) of the row-major tensor, as a flat optimizer has them: the fewest boxes that
 * make them are added. @t->offset, extent and stride are NULL, @t->at is element start. */
SHARDFUSE_API int shardfuse_save_add_flat_range(struct shardfuse_save *s,
                                                const struct shardfuse_save_tensor *t,
                                                uint64_t start, uint64_t stop,
                                                struct shardfuse_error *err);

/* A value that is no tensor. Ranks that add the same key add the same bytes, unless the format says
 * otherwise: else commit fails. */
struct shardfuse_save_object {
	size_t struct_size;
	const char *key; /* as of a tensor */
	size_t key_len;
	const struct shardfuse_save_step *path;
	size_t npath;
	/* one of: */
	const struct shardfuse_value *value;
	const char *json; /* NUL-terminated text */
	const void *at;   /* a torch.save archive, looked at: -EBADMSG where it is none; copied */
	size_t len;
};
SHARDFUSE_API int shardfuse_save_add_object(struct shardfuse_save *s,
                                            const struct shardfuse_save_object *o,
                                            struct shardfuse_error *err);
/* An object of JSON text, under the path of one step. */
SHARDFUSE_API int shardfuse_save_add_json(struct shardfuse_save *s, const char *key,
                                          const char *json, struct shardfuse_error *err);
/* A file beside the shards, "train/rank0.pt": whole or not there. One rank gives each name. Copied. */
SHARDFUSE_API int shardfuse_save_add_file(struct shardfuse_save *s, const char *name,
                                          const void *at, size_t len, struct shardfuse_error *err);

/* What would be written, without writing: JSON of items, files, ranks, bytes, on every rank.
 * Collective. Free with shardfuse_free. */
SHARDFUSE_API int shardfuse_save_plan(struct shardfuse_save *s, char **ret,
                                      struct shardfuse_error *err);

/*
 * shardfuse_save_commit - all ranks: plan, write, make visible. Waits.
 *
 * Returns 0 on every rank: the checkpoint is there under its name, durable unless no_fsync. Else the
 * same code and message on every rank that was reached, nothing is discoverable, and a new save of
 * the target may be begun. A rank that does not come is named after timeout_ms.
 * Errors: -EEXIST; -EINVAL holes, boxes that overlap, shapes or dtypes or values that disagree, an
 * empty save: tensor and ranks named; -ETIMEDOUT; -ESTALE another save of the target has begun
 * meanwhile (in a bucket); those of the file system, or of the bucket's server.
 */
SHARDFUSE_API int shardfuse_save_commit(struct shardfuse_save *s, struct shardfuse_error *err);
/*
 * shardfuse_save_commit_async - returns when the tensors' memory is the caller's again.
 *
 * *ret is to be finished by shardfuse_save_wait, @s freed after it. What failed before is told here.
 */
SHARDFUSE_API int shardfuse_save_commit_async(struct shardfuse_save *s,
                                              struct shardfuse_save_request **ret,
                                              struct shardfuse_error *err);
/* 1: it ended, wait will not wait; 0: under way. Moves it on where the communicator has no threads. */
SHARDFUSE_API int shardfuse_save_test(struct shardfuse_save_request *req);
/* Bytes of this rank that are written, of *ret_total. Any thread. */
SHARDFUSE_API uint64_t shardfuse_save_progress(const struct shardfuse_save_request *req,
                                               uint64_t *ret_total);
/* The save fails with -ECANCELED on all ranks, unless it is past that. Any thread. */
SHARDFUSE_API void shardfuse_save_cancel(struct shardfuse_save_request *req);
/* The end: what commit would return. Frees @req. */
SHARDFUSE_API int shardfuse_save_wait(struct shardfuse_save_request *req,
                                      struct shardfuse_error *err);
/* This rank will not commit: the others' commit fails with @why, at once instead of after the
 * timeout. Instead of commit. */
SHARDFUSE_API int shardfuse_save_abort(struct shardfuse_save *s, const char *why,
                                       struct shardfuse_error *err);
/* NULL is fine. Without commit or abort: as abort, but nobody is told: the others wait until their
 * timeout. With a request that was not waited for it waits, and frees that too. */
SHARDFUSE_API void shardfuse_save_free(struct shardfuse_save *s);

#ifdef __cplusplus
}
#endif
#endif
