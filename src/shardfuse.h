/*
 * shardfuse: reading sharded checkpoints from C. Link with -lshardfuse (pkg-config shardfuse).
 *
 * A handle is one checkpoint, opened and immutable. Nothing is printed, nothing exits, there is no
 * global state. Functions return 0 or a non-negative number on success and negative errno on
 * failure, with a message in @err when it is given.
 *
 * Threads: every function may be called by any number of threads on one handle, but
 * shardfuse_close, which must be the last.
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
#define SHARDFUSE_VERSION_MINOR 1

struct shardfuse;      /* an open checkpoint */
struct shardfuse_file; /* an open virtual file */

/* A message, in the caller's storage. Filled if and only if the call failed. */
struct shardfuse_error {
	char msg[1024];
};

/* What a tensor is. Pointers belong to the handle and live as long as it. */
struct shardfuse_tensor {
	const char *key; /* full name; may hold any byte, so it has a length */
	size_t key_len;
	const char *dtype;   /* torch's word: "bfloat16" */
	unsigned elem_bytes; /* per element of the shape */
	unsigned ndim;
	const uint64_t *shape; /* elements per dimension */
	uint64_t bytes;        /* of the dense row-major tensor */
	uint64_t chunks;       /* stored pieces */
};

/*
 * shardfuse_open - open SOURCE (a directory's path, or file://).
 *
 * Reads metadata only. Errors: -ENOENT no checkpoint there, -EBADMSG its metadata are malformed,
 * -ENOTSUP, -ENOMEM. Memory: about 50 bytes a chunk. Free with shardfuse_close.
 */
SHARDFUSE_API int shardfuse_open(const char *source, struct shardfuse **ret,
                                 struct shardfuse_error *err);
SHARDFUSE_API void shardfuse_close(struct shardfuse *h); /* NULL is fine */

/* Tensors in stored order: 0 … count - 1. */
SHARDFUSE_API uint64_t shardfuse_tensor_count(const struct shardfuse *h);
SHARDFUSE_API int shardfuse_tensor_info(const struct shardfuse *h, uint64_t tensor,
                                        struct shardfuse_tensor *ret);
/* Its number, or -ENOENT. O(1). */
SHARDFUSE_API int64_t shardfuse_tensor_find(const struct shardfuse *h, const char *key,
                                            size_t key_len);

/*
 * shardfuse_tensor_read - bytes [off, off + len) of the dense row-major tensor.
 *
 * Errors: -EINVAL past its end; -EBADMSG a hole or a damaged shard under the range (named); -ESTALE
 * a shard changed; -EIO.
 */
SHARDFUSE_API int shardfuse_tensor_read(struct shardfuse *h, uint64_t tensor, uint64_t off,
                                        void *buf, uint64_t len, struct shardfuse_error *err);
/*
 * shardfuse_tensor_read_box - an n-dimensional box of a tensor into the caller's array.
 *
 * Shape: origin[ndim], extent[ndim] in elements; element (i0, i1, …) of the box goes to @buf +
 * sum(i * stride). Units: stride[ndim] in bytes, may be negative; NULL: dense row-major.
 */
SHARDFUSE_API int shardfuse_tensor_read_box(struct shardfuse *h, uint64_t tensor,
                                            const uint64_t *origin, const uint64_t *extent,
                                            void *buf, const int64_t *stride,
                                            struct shardfuse_error *err);

/* Non-tensor values in stored order. The JSON is malloc'ed (free it), NUL-terminated, as value.json
 * in a mount. */
SHARDFUSE_API uint64_t shardfuse_object_count(const struct shardfuse *h);
SHARDFUSE_API int shardfuse_object_key(const struct shardfuse *h, uint64_t object,
                                       const char **ret_key, size_t *ret_len);
SHARDFUSE_API int shardfuse_object_json(struct shardfuse *h, uint64_t object, char **ret,
                                        struct shardfuse_error *err);

/* A virtual file by its path in the mount's tree ("model.pt", "hf/config.json"). Reads like pread:
 * bytes put, 0 at the end. */
SHARDFUSE_API int shardfuse_file_open(struct shardfuse *h, const char *path,
                                      struct shardfuse_file **ret, struct shardfuse_error *err);
SHARDFUSE_API uint64_t shardfuse_file_size(const struct shardfuse_file *f);
SHARDFUSE_API int64_t shardfuse_file_pread(struct shardfuse_file *f, void *buf, size_t len,
                                           uint64_t off, struct shardfuse_error *err);
SHARDFUSE_API void shardfuse_file_close(struct shardfuse_file *f); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
