/*
 * shardfuse: reading sharded checkpoints from C. Link with -lshardfuse (pkg-config shardfuse).
 *
 * A context is what handles share: threads, one memory budget, the log. A handle is one checkpoint,
 * opened and immutable. Nothing is printed, nothing exits, contexts share nothing. Strings are
 * UTF-8 as stored; keys may hold any byte, so they have lengths.
 *
 * Functions return 0 or more on success and negative errno on failure, with a message in @err when
 * it is given. Results are written only on success.
 *
 * Structs that the caller provides begin with struct_size, the caller's sizeof, so that old callers
 * and new libraries understand each other: members that one of the two does not know are 0 to the
 * library and left alone in the caller's. In options 0 means the default. SHARDFUSE_INIT sets the
 * size, and all else to 0.
 *
 * Threads: any number of them may call any function, on the same things, but what frees or closes a
 * thing is the last call on it. Handles are closed before their context, files and requests before
 * their handle. No call in a child after fork().
 *
 * An example:
 *
 *	#include <shardfuse.h>
 *	#include <stdio.h>
 *	#include <stdlib.h>
 *
 *	int main(int argc, char **argv)
 *	{
 *		struct shardfuse_tensor t = SHARDFUSE_INIT(t);
 *		struct shardfuse_error err;
 *		struct shardfuse *h;
 *
 *		if (argc != 2) {
 *			fprintf(stderr, "usage: %s CHECKPOINT\n", argv[0]);
 *			return 2;
 *		}
 *		if (shardfuse_open(NULL, argv[1], NULL, &h, &err) < 0) {
 *			fprintf(stderr, "%s\n", err.msg);
 *			return 1;
 *		}
 *		for (uint64_t i = 0; shardfuse_tensor_info(h, i, &t, NULL) == 0; i++) {
 *			unsigned char *p = malloc(t.bytes + 1), sum = 0;
 *
 *			if (!p || shardfuse_tensor_read(h, i, 0, p, t.bytes, &err) < 0) {
 *				fprintf(stderr, "%s\n", p ? err.msg : "no memory");
 *				return 1;
 *			}
 *			for (uint64_t k = 0; k < t.bytes; k++)
 *				sum ^= p[k];
 *			printf("%.*s %s %llu %02x\n", (int)t.key_len, t.key, t.dtype,
 *			       (unsigned long long)t.bytes, sum);
 *			free(p);
 *		}
 *		shardfuse_close(h);
 *		return 0;
 *	}
 */
#ifndef SHARDFUSE_H
#define SHARDFUSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SHARDFUSE_API __attribute__((visibility("default")))
#else
#define SHARDFUSE_API
#endif

#define SHARDFUSE_VERSION_MAJOR 0
#define SHARDFUSE_VERSION_MINOR 3
/* Of the library that runs: major << 16 | minor. Members are only ever added within a major
 * version. */
SHARDFUSE_API unsigned shardfuse_version(void);

/* clang-format off */
#ifdef __cplusplus
#define SHARDFUSE_INIT(x) { sizeof(x) }
#else
#define SHARDFUSE_INIT(x) { .struct_size = sizeof(x) }
#endif
/* clang-format on */
#define SHARDFUSE_DIMS_MAX 64

struct shardfuse_context;
struct shardfuse;         /* an open checkpoint */
struct shardfuse_file;    /* an open virtual file */
struct shardfuse_request; /* a read under way */

/* A message, in the caller's storage. Filled if and only if the call failed. */
struct shardfuse_error {
	char msg[1024];
};

/* Frees what the library gave (JSON, bytes). NULL is fine. */
SHARDFUSE_API void shardfuse_free(void *p);

/* ---- contexts ---- */

struct shardfuse_context_options {
	size_t struct_size;
	/* bytes for reads and caches of all handles, beyond loaded metadata; 0: a quarter of
	 * what the machine or the process's cgroup has, 1 GiB at most */
	uint64_t memory;
	/* that wait for storage, of all handles; nine more do the rest, two to eight write the
	 * cache, where there is one; 0: 16 */
	unsigned threads;
	/* a read's deadline, from when it has the memory that it needs; 0: 60,000 */
	unsigned timeout_ms;
	/* kept open, of all handles; 0: half of what the process may, 4,096 at most */
	unsigned open_files;
	/* What would be a line of the log: 0 error, 1 warning, 2 info, 3 debug. Any thread, several
	 * at once. NULL: nothing is said. */
	void (*log)(void *arg, int level, const char *line);
	void *log_arg;
	int log_level; /* lines up to this one; 0: errors alone */
	/* Of s3://, gs:// and https:// checkpoints, each as the option of the same name of shardfuse(1);
	 * NULL or 0: as there, from the environment and the user's files. The strings are not
	 * copied: they live until the context is freed. */
	const char *ca_bundle; /* a file of certificates to trust; NULL: the system's */
	const char *endpoint_url, *region, *profile;
	const char *addressing; /* "path", "virtual" */
	int no_sign_request, request_payer;
	/* What was fetched is kept on disk if one of the two is given, and not else: in this
	 * directory (NULL: the user's cache directory), up to so many bytes (0: as shardfuse(1) does). */
	const char *cache_dir;
	uint64_t cache_size;
	const char *user_project; /* of gs:// */
};
/*
 * shardfuse_context_new - starts the threads. @opt may be NULL. Errors: -ENOMEM, -EAGAIN no
 * threads; -EINVAL an option.
 *
 * Free with shardfuse_context_free, after its handles are closed: waits for its threads, a second
 * at most for storage that hangs.
 */
SHARDFUSE_API int shardfuse_context_new(const struct shardfuse_context_options *opt,
                                        struct shardfuse_context **ret,
                                        struct shardfuse_error *err);
SHARDFUSE_API void shardfuse_context_free(struct shardfuse_context *ctx); /* NULL is fine */

/* ---- opening ---- */

struct shardfuse_open_options {
	size_t struct_size;
	const char *source_format; /* as --source-format; NULL: it is found out */
	/* as --key, --ignore, --map: so many strings each */
	const char *const *key;
	const char *const *ignore;
	const char *const *map;
	size_t nkey, nignore, nmap;
	/* "bf16", "fp16", "fp32": of the model's floating-point tensors; NULL: as stored */
	const char *cast;
	const char *hf_files; /* directory of config.json and the like for hf/ */
	int model_only;       /* the same as role "model" */
	int complete;         /* damage is an error */
	/* "model", "optim", "other": the keys of groups of this role alone; NULL: all */
	const char *role;
};
/*
 * shardfuse_open - open SOURCE (a directory's path, file://, http://, https://, s3:// or gs://).
 * Reads metadata only. @ctx (NULL: one that all handles share that are opened so) outlives the handle;
 * @opt may be NULL, and nothing of it is needed after the call. Memory: about 50 bytes a chunk.
 * Free with shardfuse_close.
 *
 * Errors: -ENOENT no checkpoint there, -EBADMSG its metadata are malformed, -ENOTSUP, -ENOMEM;
 * -EINVAL an option.
 */
SHARDFUSE_API int shardfuse_open(struct shardfuse_context *ctx, const char *source,
                                 const struct shardfuse_open_options *opt, struct shardfuse **ret,
                                 struct shardfuse_error *err);
/* No request may be under way, no file open. NULL is fine. */
SHARDFUSE_API void shardfuse_close(struct shardfuse *h);

/* ---- what it is. Pointers belong to the handle and live as long as it. ---- */

struct shardfuse_info {
	size_t struct_size;
	const char *source, *format; /* "dcp" */
	const char *writer;          /* who wrote it as far as it can be told, or NULL */
	int64_t step;                /* -1: not known */
	int64_t mtime_ns;            /* commit time since 1970; 0: not known */
	uint64_t tensors, objects, groups, warnings, chunks;
	uint64_t bytes; /* of all tensors, dense */
	unsigned ranks; /* that wrote it; 0: not known */
};
SHARDFUSE_API int shardfuse_info(const struct shardfuse *h, struct shardfuse_info *ret,
                                 struct shardfuse_error *err);

enum shardfuse_role { SHARDFUSE_OTHER, SHARDFUSE_MODEL, SHARDFUSE_OPTIM };
struct shardfuse_group {
	size_t struct_size;
	const char *name; /* "" is the unnamed group; may hold any byte */
	size_t name_len;
	int role; /* enum shardfuse_role */
	uint64_t tensors, objects, bytes;
};
/* 0 … groups - 1. -EINVAL past the last. */
SHARDFUSE_API int shardfuse_group_info(const struct shardfuse *h, uint64_t group,
                                       struct shardfuse_group *ret, struct shardfuse_error *err);

struct shardfuse_warning {
	size_t struct_size;
	const char *key; /* NULL: of the whole checkpoint */
	size_t key_len;
	const char *code; /* a stable word: "hole", "missing-file", … */
	const char *text;
};
SHARDFUSE_API int shardfuse_warning_info(const struct shardfuse *h, uint64_t warning,
                                         struct shardfuse_warning *ret,
                                         struct shardfuse_error *err);

/* A tensor, as it is shown under the options it was opened with: --map's name, the cast dtype and
 * its bytes. */
struct shardfuse_tensor {
	size_t struct_size;
	const char *key; /* full name; may hold any byte, so it has a length */
	size_t key_len;
	const char *dtype; /* torch's word: "bfloat16" */
	unsigned elem_bytes;
	unsigned ndim;         /* at most SHARDFUSE_DIMS_MAX */
	const uint64_t *shape; /* elements per dimension */
	uint64_t bytes;        /* of the dense row-major tensor */
	uint64_t chunks;       /* stored pieces */
	uint64_t group;
	uint64_t order; /* among tensors and objects: as the nested state dict has them */
};
/* Tensors in stored order, 0 … tensors - 1. -EINVAL past the last. */
SHARDFUSE_API int shardfuse_tensor_info(const struct shardfuse *h, uint64_t tensor,
                                        struct shardfuse_tensor *ret, struct shardfuse_error *err);
/* Its number, or -ENOENT. O(1). */
SHARDFUSE_API int64_t shardfuse_tensor_find(const struct shardfuse *h, const char *key,
                                            size_t key_len, struct shardfuse_error *err);

/* A stored piece: elements [origin, origin + extent) of its tensor. */
struct shardfuse_chunk {
	size_t struct_size;
	uint64_t origin[SHARDFUSE_DIMS_MAX], extent[SHARDFUSE_DIMS_MAX]; /* the first ndim */
	const char *file; /* relative to the source; NULL: metadata names no item */
	uint64_t off,
		len; /* bytes of that file: the item that holds it, its header included, or the
	                      compressed stream that the item lies in */
};
SHARDFUSE_API int shardfuse_chunk_info(const struct shardfuse *h, uint64_t tensor, uint64_t chunk,
                                       struct shardfuse_chunk *ret, struct shardfuse_error *err);

/* Values that are not tensors, in stored order, 0 … objects - 1. */
struct shardfuse_object {
	size_t struct_size;
	const char *key;
	size_t key_len;
	uint64_t group, order;
};
SHARDFUSE_API int shardfuse_object_info(const struct shardfuse *h, uint64_t object,
                                        struct shardfuse_object *ret, struct shardfuse_error *err);
/* As value.json in a mount, NUL-terminated. Free with shardfuse_free. Waits. Errors: -E2BIG; those
 * of a read. */
SHARDFUSE_API int shardfuse_object_json(struct shardfuse *h, uint64_t object, char **ret,
                                        struct shardfuse_error *err);
/* Pickled, a file as torch.save writes it: value.pt in a mount. Free with shardfuse_free. Waits. */
SHARDFUSE_API int shardfuse_object_pt(struct shardfuse *h, uint64_t object, void **ret,
                                      size_t *ret_len, struct shardfuse_error *err);

/* ---- reading tensors ---- */

/*
 * One read of a tensor: a box of it, or bytes of it.
 *
 * A box: elements [origin, origin + extent) of each dimension; element (i0, i1, …) of it goes to
 * buf + sum(i * stride). NULL origin: zeros; NULL extent: to the end of each dimension; NULL
 * stride: the box dense, row-major.
 *
 * Bytes, when off or len is not 0: [off, off + len) of the dense row-major tensor, one after the
 * other; then those three are NULL.
 */
struct shardfuse_read {
	size_t struct_size; /* of all reads of one call the same */
	uint64_t tensor;
	const uint64_t *origin, *extent; /* elements; one for each dimension */
	const int64_t *stride; /* bytes, may be negative; the elements' places must not overlap */
	uint64_t off, len;     /* bytes */
	void *buf;             /* where the first element goes */
	struct shardfuse_error *err; /* this read's message, or NULL */
	int result;                  /* is set: 0 or negative errno */
};
/*
 * shardfuse_read - reads of tensors, side by side. Waits.
 *
 * Returns 0, or the first failure with its message; the others are read all the same, and each
 * one's own is its result. After a failure its buffer holds anything.
 *
 * Errors: -EINVAL past the tensor's end, or no such tensor; -EBADMSG a hole or a damaged shard
 * under it (named); -ESTALE a shard changed; -ETIMEDOUT, -EIO, -ENOMEM. Cost: requests to storage
 * are those of the chunks under a box, whatever the strides. Memory is the context's.
 */
SHARDFUSE_API int shardfuse_read(struct shardfuse *h, struct shardfuse_read *reads, size_t n,
                                 struct shardfuse_error *err);
/*
 * shardfuse_read_start - the same, without waiting.
 *
 * @done (NULL: none) is called once, when the last read has ended, in a thread of the context, with
 * what shardfuse_read would return: it may not wait for another read, nor finish this one. @reads,
 * and all that they point to, are the library's until then. *ret is to be finished in any case.
 * Errors: nothing was started, done is not called.
 */
SHARDFUSE_API int shardfuse_read_start(struct shardfuse *h, struct shardfuse_read *reads, size_t n,
                                       void (*done)(void *arg, int result), void *arg,
                                       struct shardfuse_request **ret, struct shardfuse_error *err);
/* Reads that have not ended end soon, with -ECANCELED. Not after finish. */
SHARDFUSE_API void shardfuse_request_cancel(struct shardfuse_request *req);
/* Waits for the end (done has returned) and frees @req. Returns what done is given. NULL is fine:
 * 0. */
SHARDFUSE_API int shardfuse_request_finish(struct shardfuse_request *req);

/* Bytes [off, off + len) of the dense row-major tensor: one read, waited for. */
SHARDFUSE_API int shardfuse_tensor_read(struct shardfuse *h, uint64_t tensor, uint64_t off,
                                        void *buf, uint64_t len, struct shardfuse_error *err);

/* ---- virtual files, by their path in the mount's tree ("model.pt", "hf/config.json") ---- */

enum shardfuse_type { SHARDFUSE_FILE, SHARDFUSE_DIR, SHARDFUSE_LINK };
/* Entries of a directory ("" is the root), in no order, without "." and ".."; names are the call's.
 * A nonzero result of @each ends it and is returned. Errors: -ENOENT, -ENOTDIR. */
SHARDFUSE_API int shardfuse_list(struct shardfuse *h, const char *path,
                                 int (*each)(void *arg, const char *name, int type), void *arg,
                                 struct shardfuse_error *err);
/* May wait: sizes of some files are known only when objects were read. Errors: -ENOENT, -EISDIR;
 * those of a read. */
SHARDFUSE_API int shardfuse_file_open(struct shardfuse *h, const char *path,
                                      struct shardfuse_file **ret, struct shardfuse_error *err);
SHARDFUSE_API uint64_t shardfuse_file_size(const struct shardfuse_file *f);
/* Like pread: bytes put, fewer only at the end, 0 behind it. Waits. Of what lies behind a server,
 * what comes next is fetched ahead for who reads forward. */
SHARDFUSE_API int64_t shardfuse_file_pread(struct shardfuse_file *f, void *buf, size_t len,
                                           uint64_t off, struct shardfuse_error *err);
SHARDFUSE_API void shardfuse_file_close(struct shardfuse_file *f); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
