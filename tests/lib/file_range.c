#include "config.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tests/lib/file_range.h"

int st_file_range(const struct sf_st_file *f, uint64_t off, uint64_t len,
                  const struct sf_st_file_sink *to)
{
	int r = 0;

	for (uint64_t n; len > 0 && r >= 0; off += n, len -= n) {
		/* of several empty records and the one behind them, that one */
		size_t rec = sf_last_start(f->start, SF_ST_FILE_RECORDS(f->n), off);
		n = SF_MIN(f->start[rec + 1] - off, len);
		r = sf_st_file_record(f, rec, off - f->start[rec], n, to);
	}
	return r;
}

/* [off, off+len) of what is in @out, which is released. */
static int hand_over(struct sf_buf *out, uint64_t off, uint64_t len,
                     const struct sf_torch_file_sink *to)
{
	int r = sf_buf_check(out);

	if (r >= 0)
		r = to->bytes(to->arg, out->at + off, (size_t)len);
	sf_buf_release(out);
	return r;
}

int torch_file_range(const struct sf_torch_file *f, uint64_t off, uint64_t len,
                     const struct sf_torch_file_sink *to)
{
	const uint64_t head = sf_torch_file_pickle_off(f), tail = head + f->pkl_len;
	int r = 0;

	for (uint64_t n; len > 0 && r >= 0; off += n, len -= n) {
		struct sf_buf out = { 0 };
		if (off < head) {
			n = SF_MIN(head - off, len);
			sf_torch_file_put_head(f, &out);
			r = hand_over(&out, off, n, to);
		} else if (off < tail) {
			n = SF_MIN(tail - off, len);
			r = to->pickle(to->arg, off - head, n);
		} else if (off < f->start[0]) {
			n = SF_MIN(f->start[0] - off, len);
			sf_torch_file_put_byteorder(f, &out);
			r = hand_over(&out, off - tail, n, to);
		} else {
			size_t piece =
				sf_last_start(f->start, SF_TORCH_FILE_PIECES(f->nstorage), off);
			n = SF_MIN(f->start[piece + 1] - off, len);
			r = sf_torch_file_piece(f, piece, off - f->start[piece], n, to);
		}
	}
	return r;
}
