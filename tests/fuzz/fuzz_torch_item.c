#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "parse/torch_item.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sf_torch_tensor *t)
{
	uint64_t last = t->storage_off;

	if (t->ndim > SF_DIMS_MAX || !t->dtype || t->dtype >= SF_NDTYPES)
		abort();
	for (unsigned d = 0; d < t->ndim; d++)
		if (!t->shape[d])
			return;
	for (unsigned d = 0; d < t->ndim; d++)
		if (t->stride[d] < 0 ||
		    !sf_mul(t->shape[d] - 1, (uint64_t)t->stride[d], &(uint64_t){ 0 }))
			abort();
		else
			last += (t->shape[d] - 1) * (uint64_t)t->stride[d];
	if (last >= t->storage_numel)
		abort();
}

/*
 * Any bytes as an item, its head given piece by piece: each -EAGAIN asks for more than there was,
 * the end is an error or a payload inside the item that the tensor does not leave. And any bytes as
 * its data.pkl.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_torch_item it;
	struct sf_torch_tensor t;
	struct sf_error err = SF_ERROR_INIT;
	uint64_t need = SF_MIN(size, (size_t)100), len;
	char key[64];
	int r;

	do {
		uint8_t *head = malloc(need + 1); /* the head alone, for a sanitizer */
		if (!head)
			abort();
		len = need;
		memcpy(head, data, len);
		err.msg[0] = '\0';
		r = sf_torch_item_head(head, len, size, &it, &need, &err);
		free(head);
		if ((r < 0) != (err.msg[0] != '\0') ||
		    (r == -EAGAIN && (need <= len || need > size)))
			abort();
	} while (r == -EAGAIN);
	if (r == 0) {
		if (it.payload_off > size || it.payload_len > size - it.payload_off)
			abort();
		check(&it.t);
	}
	need = SF_MIN(size, (size_t)100);
	do {
		uint64_t off, n;
		len = need;
		err.msg[0] = '\0';
		r = sf_torch_item_pickle(data, len, size, &off, &n, &need, &err);
		if ((r < 0) != (err.msg[0] != '\0') ||
		    (r == -EAGAIN && (need <= len || need > size)) ||
		    (r == 0 && (off > len || n > len - off)))
			abort();
	} while (r == -EAGAIN);
	err.msg[0] = '\0';
	r = sf_torch_item_pkl(data, size, &t, key, &err);
	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r == 0) {
		if (memchr(key, '\0', sizeof(key)) == NULL)
			abort();
		check(&t);
	}
	return 0;
}
