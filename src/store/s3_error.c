#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/s3_list.h"
#include "store/xml.h"

/* Into a field of @size bytes: cut at a character, control characters as '?'. */
static void show(char *to, size_t size, const struct sf_buf *text)
{
	size_t n = SF_MIN(text->len, size - 1);

	while (n < text->len && n > 0 && (text->at[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		to[i] = (char)(text->at[i] < ' ' || text->at[i] == 0x7f ? '?' : text->at[i]);
	to[n] = '\0';
}

bool sf_s3_error_parse(const char *doc, size_t len, struct sf_s3_error *ret)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} field[] = {
		{ "Code", ret->code, sizeof(ret->code) },
		{ "Message", ret->message, sizeof(ret->message) },
		{ "Region", ret->region, sizeof(ret->region) },
		{ "RequestId", ret->request_id, sizeof(ret->request_id) },
	};
	struct sf_buf text = { .limit = 4096 };
	struct sf_xml x;
	bool is_error;
	int64_t ns;
	int r;

	*ret = (struct sf_s3_error){ .code = "" };
	sf_xml_init(&x, doc, len);
	r = sf_xml_next(&x, NULL);
	/* STS wraps it: <ErrorResponse><Error>...</Error><RequestId/></ErrorResponse> */
	while (r > 0 && (sf_xml_is(&x, "ErrorResponse") || r == SF_XML_TEXT))
		r = sf_xml_next(&x, NULL);
	is_error = r == SF_XML_OPEN && sf_xml_is(&x, "Error");
	while (is_error && (r = sf_xml_next(&x, NULL)) > 0) {
		size_t i = 0;

		if (r != SF_XML_OPEN)
			continue;
		while (i < SF_ARRAY_LEN(field) && !sf_xml_is(&x, field[i].name))
			i++;
		bool is_time = sf_xml_is(&x, "ServerTime");
		r = sf_xml_text(&x, &text, NULL);
		if (r < 0)
			break; /* cut or damaged: what it told by then will do */
		if (i < SF_ARRAY_LEN(field))
			show(field[i].to, field[i].size, &text);
		else if (is_time && sf_s3_time(sf_buf_cstr(&text), &ns))
			ret->server_time = ns / 1000000000;
	}
	sf_xml_release(&x);
	sf_buf_release(&text);
	if (!*ret->code)
		*ret = (struct sf_s3_error){ .code = "" };
	return *ret->code != '\0';
}
