#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/zip_write.h"

#define LOCAL_LEN 30
#define CENTRAL_LEN 46
#define ALIGN 64 /* what torch's writer gives, and its mmap wants */
#define UTF8_NAMES 0x0800

/* As torch's writer decides it, so that sizes agree with archives of its own. */
static bool big(uint64_t v)
{
	return v >= UINT32_MAX;
}

/* Two sizes, and the offset as torch adds it although a local header has no such field. */
static size_t zip64_len(uint64_t header_off, uint64_t size)
{
	size_t n = (big(size) ? 16 : 0) + (big(header_off) ? 8 : 0);

	return n ? n + 4 : 0;
}

static uint32_t low(uint64_t v)
{
	return big(v) ? UINT32_MAX : (uint32_t)v;
}

static uint8_t *put_zip64(uint8_t *p, const struct sf_zip_entry *e)
{
	size_t n = zip64_len(e->header_off, e->size);

	if (!n)
		return p;
	sf_put_le16(p, 1);
	sf_put_le16(p + 2, (uint16_t)(n - 4));
	p += 4;
	if (big(e->size)) {
		sf_put_le64(p, e->size);
		sf_put_le64(p + 8, e->size);
		p += 16;
	}
	if (big(e->header_off)) {
		sf_put_le64(p, e->header_off);
		p += 8;
	}
	return p;
}

uint64_t sf_zip_header_len(size_t name_len, uint64_t header_off, uint64_t size)
{
	uint64_t n = LOCAL_LEN + name_len + zip64_len(header_off, size) + 4;

	return n + (-(header_off + n) & (ALIGN - 1));
}

void sf_zip_put_header(struct sf_buf *out, const struct sf_zip_entry *e)
{
	uint64_t len = sf_zip_header_len(e->name_len, e->header_off, e->size);
	uint8_t *p = sf_buf_extend(out, (size_t)len), *end;

	if (!p)
		return;
	end = p + len;
	memset(p, 0, LOCAL_LEN);
	memcpy(p, "PK\3\4", 4);
	sf_put_le16(p + 6, UTF8_NAMES);
	sf_put_le32(p + 14, e->crc);
	sf_put_le32(p + 18, low(e->size));
	sf_put_le32(p + 22, low(e->size));
	sf_put_le16(p + 26, (uint16_t)e->name_len);
	sf_put_le16(p + 28, (uint16_t)(len - LOCAL_LEN - e->name_len));
	memcpy(p + LOCAL_LEN, e->name, e->name_len);
	p = put_zip64(p + LOCAL_LEN + e->name_len, e);
	memcpy(p, "FB", 2);
	sf_put_le16(p + 2, (uint16_t)(end - p - 4));
	memset(p + 4, 'Z', (size_t)(end - p - 4));
}

uint64_t sf_zip_central_len(size_t name_len, uint64_t header_off, uint64_t size)
{
	return CENTRAL_LEN + name_len + zip64_len(header_off, size);
}

void sf_zip_put_central(struct sf_buf *out, const struct sf_zip_entry *e)
{
	uint8_t *p =
		sf_buf_extend(out, (size_t)sf_zip_central_len(e->name_len, e->header_off, e->size));

	if (!p)
		return;
	memset(p, 0, CENTRAL_LEN);
	memcpy(p, "PK\1\2", 4);
	sf_put_le16(p + 8, UTF8_NAMES);
	sf_put_le32(p + 16, e->crc);
	sf_put_le32(p + 20, low(e->size));
	sf_put_le32(p + 24, low(e->size));
	sf_put_le16(p + 28, (uint16_t)e->name_len);
	sf_put_le16(p + 30, (uint16_t)zip64_len(e->header_off, e->size));
	sf_put_le32(p + 42, low(e->header_off));
	memcpy(p + CENTRAL_LEN, e->name, e->name_len);
	put_zip64(p + CENTRAL_LEN + e->name_len, e);
}

void sf_zip_put_end(struct sf_buf *out, uint64_t entries, uint64_t dir_off, uint64_t dir_len)
{
	uint8_t *p = sf_buf_extend(out, SF_ZIP_END_LEN);

	if (!p)
		return;
	memset(p, 0, SF_ZIP_END_LEN);
	memcpy(p, "PK\6\6", 4);
	sf_put_le64(p + 4, 44);
	sf_put_le16(p + 12, 0x031e);
	sf_put_le16(p + 14, 0x002d);
	sf_put_le64(p + 24, entries);
	sf_put_le64(p + 32, entries);
	sf_put_le64(p + 40, dir_len);
	sf_put_le64(p + 48, dir_off);
	p += 56;
	memcpy(p, "PK\6\7", 4);
	sf_put_le64(p + 8, dir_off + dir_len);
	sf_put_le32(p + 16, 1);
	p += 20;
	memcpy(p, "PK\5\6", 4);
	sf_put_le16(p + 8, entries > UINT16_MAX ? UINT16_MAX : (uint16_t)entries);
	sf_put_le16(p + 10, entries > UINT16_MAX ? UINT16_MAX : (uint16_t)entries);
	sf_put_le32(p + 12, low(dir_len));
	sf_put_le32(p + 16, low(dir_off));
}
