#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/npy.h"

/* characters numpy leaves for the first dimension to grow in place (GROWTH_AXIS_MAX_DIGITS) */
#define GROWTH 21

/*
 * Source: numpy numpy/lib/_format_impl.py (2.x; format.py before): header_data_from_array_1_0,
 * _write_array_header. A shape of 64 dimensions of 20 digits still fits into version 1's 65,535
 * bytes.
 */
void sf_npy_put_header(struct sf_buf *out, const char *descr, const uint64_t *shape, unsigned ndim)
{
	static const uint8_t magic[8] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0 };
	size_t begin = out->len, text, digits, pad;
	uint8_t *len;

	sf_buf_add(out, magic, sizeof(magic));
	sf_buf_add(out, "\0", 2);
	text = out->len;
	sf_buf_printf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	digits = out->len;
	for (unsigned d = 0; d < ndim; d++) {
		sf_buf_printf(out, d ? ", %" PRIu64 : "%" PRIu64, shape[d]);
		if (d == 0)
			digits = out->len - digits;
	}
	if (!ndim)
		digits = GROWTH; /* a scalar cannot grow */
	sf_buf_str(out, ndim == 1 ? ",), }" : "), }");
	for (; digits < GROWTH; digits++)
		sf_buf_byte(out, ' ');
	pad = 64 - (out->len - begin + 1) %
	                   64; /* 64 more, not 0, where it fits already: so does numpy */
	for (; pad; pad--)
		sf_buf_byte(out, ' ');
	sf_buf_byte(out, '\n');
	if (sf_buf_check(out) < 0)
		return;
	len = out->at + begin + 8;
	sf_put_le16(len, (uint16_t)(out->len - text));
}
