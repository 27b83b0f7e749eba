#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "store/xml.h"

void sf_xml_init(struct sf_xml *x, const char *doc, size_t len)
{
	*x = (struct sf_xml){ .start = doc, .at = doc, .end = doc + len };
	/* the mark that some servers put in front */
	if (len >= 3 && memcmp(doc, "\xef\xbb\xbf", 3) == 0)
		x->at += 3;
}

void sf_xml_release(struct sf_xml *x)
{
	sf_buf_release(&x->text);
}

static int bad(const struct sf_xml *x, struct sf_error *err, const char *what)
{
	return sf_fail(err, -EBADMSG, "XML: %s at byte %zu of %zu", what,
	               (size_t)(x->at - x->start), (size_t)(x->end - x->start));
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct sf_xml *x)
{
	while (x->at < x->end && is_blank(*x->at))
		x->at++;
}

static bool ahead(const struct sf_xml *x, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(x->end - x->at) >= n && memcmp(x->at, what, n) == 0;
}

/* ASCII letters and what may follow them, and anything that is not ASCII. */
static bool is_name_byte(char c, bool first)
{
	if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == ':' ||
	    (unsigned char)c >= 0x80)
		return true;
	return !first && ((c >= '0' && c <= '9') || c == '-' || c == '.');
}

static bool is_char(uint32_t c)
{
	return (c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n' || c == '\r';
}

/* The character at x->at: its bytes, or -EBADMSG. */
static int one_char(const struct sf_xml *x, struct sf_error *err)
{
	uint32_t c;
	size_t n = sf_utf8_next(x->at, (size_t)(x->end - x->at), &c);

	if (!n)
		return bad(x, err, "not UTF-8");
	if (!is_char(c))
		return bad(x, err, "a control character");
	return (int)n;
}

static int take_name(struct sf_xml *x, struct sf_xml_name *ret, struct sf_error *err)
{
	const char *start = x->at;

	if (x->at == x->end || !is_name_byte(*x->at, true))
		return bad(x, err, "no name");
	while (x->at < x->end && is_name_byte(*x->at, false)) {
		int n = one_char(x, err);
		if (n < 0)
			return n;
		x->at += n;
	}
	*ret = (struct sf_xml_name){ start, (size_t)(x->at - start) };
	return 0;
}

static void put_utf8(struct sf_buf *b, uint32_t c)
{
	if (c < 0x80) {
		sf_buf_byte(b, (uint8_t)c);
		return;
	}
	if (c < 0x800) {
		sf_buf_byte(b, (uint8_t)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			sf_buf_byte(b, (uint8_t)(0xe0 | c >> 12));
		} else {
			sf_buf_byte(b, (uint8_t)(0xf0 | c >> 18));
			sf_buf_byte(b, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
		}
		sf_buf_byte(b, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
	}
	sf_buf_byte(b, (uint8_t)(0x80 | (c & 0x3f)));
}

/* "#38" or "#x26", without '&' and ';'. A key may have control characters, which a server can send
 * in no other way. */
static int number(const char *s, size_t len, uint32_t *ret)
{
	bool hex = len > 1 && s[1] == 'x';
	uint32_t c = 0;

	if (len <= (hex ? 2u : 1u) || len > 9)
		return -EBADMSG;
	for (size_t i = hex ? 2 : 1; i < len; i++) {
		uint32_t d = s[i] >= '0' && s[i] <= '9'          ? (uint32_t)(s[i] - '0')
		             : hex && s[i] >= 'a' && s[i] <= 'f' ? (uint32_t)(s[i] - 'a' + 10)
		             : hex && s[i] >= 'A' && s[i] <= 'F' ? (uint32_t)(s[i] - 'A' + 10)
		                                                 : 16;
		if (d == 16)
			return -EBADMSG;
		c = c * (hex ? 16 : 10) + d;
		if (c > 0x10ffff)
			return -EBADMSG;
	}
	*ret = c;
	return c && (c < 0xd800 || c > 0xdfff) ? 0 : -EBADMSG;
}

/* At '&'. @to NULL: only checked. */
static int reference(struct sf_xml *x, struct sf_buf *to, struct sf_error *err)
{
	static const struct {
		const char *name;
		char c;
	} known[] = {
		{ "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' }, { "apos", '\'' }
	};
	const char *name = x->at + 1;
	const char *semi = memchr(name, ';', SF_MIN((size_t)(x->end - name), (size_t)12));
	uint32_t c = 0;

	if (!semi)
		return bad(x, err, "an '&' that begins no entity");
	size_t len = (size_t)(semi - name);
	if (len && *name == '#') {
		if (number(name, len, &c) < 0)
			return bad(x, err, "a reference that is no character");
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(known) && !c; i++)
		if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
			c = (uint32_t)known[i].c;
	if (!c)
		return bad(x, err, "an entity that is not one of XML's own");
	if (to)
		put_utf8(to, c);
	x->at = semi + 1;
	return 0;
}

/* name="value", blanks in front taken already. */
static int attribute(struct sf_xml *x, struct sf_error *err)
{
	struct sf_xml_name name;
	int r = take_name(x, &name, err);
	char quote;

	if (r < 0)
		return r;
	skip_blanks(x);
	if (x->at == x->end || *x->at != '=')
		return bad(x, err, "an attribute without value");
	x->at++;
	skip_blanks(x);
	if (x->at == x->end || (*x->at != '"' && *x->at != '\''))
		return bad(x, err, "an attribute's value without quotes");
	quote = *x->at++;
	while (x->at < x->end && *x->at != quote) {
		if (*x->at == '<')
			return bad(x, err, "a '<' in an attribute");
		r = *x->at == '&' ? reference(x, NULL, err) : one_char(x, err);
		if (r < 0)
			return r;
		x->at += r;
	}
	if (x->at == x->end)
		return bad(x, err, "an attribute that does not end");
	x->at++;
	return 0;
}

/* At '<' of a start tag. */
static int open_tag(struct sf_xml *x, struct sf_error *err)
{
	int r;

	x->at++;
	r = take_name(x, &x->name, err);
	if (r < 0)
		return r;
	if (x->depth == 0 && x->root_seen)
		return bad(x, err, "a second root element");
	if (x->depth == SF_XML_DEPTH_MAX)
		return sf_fail(err, -E2BIG, "XML: elements nest deeper than %d at byte %zu",
		               SF_XML_DEPTH_MAX, (size_t)(x->at - x->start));
	for (;;) {
		bool blank = x->at < x->end && is_blank(*x->at);

		skip_blanks(x);
		if (ahead(x, "/>") || ahead(x, ">"))
			break;
		if (!blank)
			return bad(x, err, "a tag that does not end");
		r = attribute(x, err);
		if (r < 0)
			return r;
	}
	x->closing = *x->at == '/';
	x->at += x->closing ? 2 : 1;
	x->root_seen = true;
	x->open[x->depth++] = x->name;
	return SF_XML_OPEN;
}

static int pop(struct sf_xml *x)
{
	x->name = x->open[--x->depth];
	return SF_XML_CLOSE;
}

/* At "</". */
static int close_tag(struct sf_xml *x, struct sf_error *err)
{
	struct sf_xml_name name;
	int r;

	x->at += 2;
	r = take_name(x, &name, err);
	if (r < 0)
		return r;
	skip_blanks(x);
	if (x->at == x->end || *x->at != '>')
		return bad(x, err, "a tag that does not end");
	if (!x->depth || x->open[x->depth - 1].len != name.len ||
	    memcmp(x->open[x->depth - 1].at, name.at, name.len) != 0)
		return bad(x, err, "a tag that closes what is not open");
	x->at++;
	return pop(x);
}

/* To behind @end, from behind x->at + @skip. */
static int take_until(struct sf_xml *x, size_t skip, const char *end, struct sf_buf *to,
                      struct sf_error *err)
{
	x->at += skip;
	while (x->at < x->end && !ahead(x, end)) {
		int n = one_char(x, err);
		if (n < 0)
			return n;
		if (to)
			sf_buf_add(to, x->at, (size_t)n);
		x->at += n;
	}
	if (x->at == x->end)
		return bad(x, err, "a comment or an instruction that does not end");
	x->at += strlen(end);
	return 0;
}

/* Characters up to the next '<'. */
static int text(struct sf_xml *x, struct sf_error *err)
{
	while (x->at < x->end && *x->at != '<') {
		int n = *x->at == '&' ? reference(x, &x->text, err) : one_char(x, err);
		if (n < 0)
			return n;
		sf_buf_add(&x->text, x->at, (size_t)n); /* 0 after a reference */
		x->at += n;
	}
	if (sf_buf_check(&x->text) < 0)
		return sf_fail(err, sf_buf_check(&x->text), "XML: no memory for a text");
	return SF_XML_TEXT;
}

int sf_xml_next(struct sf_xml *x, struct sf_error *err)
{
	int r;

	sf_buf_reset(&x->text);
	if (x->closing) {
		x->closing = false;
		return pop(x);
	}
	for (;;) {
		if (x->depth == 0)
			skip_blanks(x);
		if (x->at == x->end) {
			if (x->depth)
				return bad(x, err, "an element that does not end");
			return x->root_seen ? SF_XML_END : bad(x, err, "no element");
		}
		if (ahead(x, "<!--")) {
			r = take_until(x, 4, "-->", NULL, err);
		} else if (ahead(x, "<?")) {
			r = take_until(x, 2, "?>", NULL, err);
		} else if (x->depth && ahead(x, "<![CDATA[")) {
			r = take_until(x, 9, "]]>", &x->text, err);
			if (r >= 0 && sf_buf_check(&x->text) < 0)
				r = sf_fail(err, sf_buf_check(&x->text),
				            "XML: no memory for a text");
			if (r == 0)
				return SF_XML_TEXT;
		} else if (ahead(x, "<!")) {
			return bad(x, err, "a DTD, which is not read,");
		} else if (ahead(x, "</")) {
			return close_tag(x, err);
		} else if (*x->at == '<') {
			return open_tag(x, err);
		} else if (x->depth) {
			return text(x, err);
		} else {
			return bad(x, err, "characters outside the root element");
		}
		if (r < 0)
			return r;
	}
}

int sf_xml_skip(struct sf_xml *x, struct sf_error *err)
{
	unsigned depth = x->depth;
	int r;

	do
		r = sf_xml_next(x, err);
	while (r >= 0 && !(r == SF_XML_CLOSE && x->depth < depth));
	return r < 0 ? r : 0;
}

int sf_xml_text(struct sf_xml *x, struct sf_buf *to, struct sf_error *err)
{
	int r;

	sf_buf_reset(to);
	while ((r = sf_xml_next(x, err)) != SF_XML_CLOSE) {
		if (r == SF_XML_TEXT)
			sf_buf_add(to, x->text.at, x->text.len);
		else if (r == SF_XML_OPEN)
			r = sf_xml_skip(x, err);
		if (r < 0)
			return r;
	}
	r = sf_buf_check(to);
	return r < 0 ? sf_fail(err, r, "XML: the text of <%.*s> is longer than %zu bytes",
	                       (int)SF_MIN(x->name.len, (size_t)64), x->name.at, to->limit)
	             : 0;
}

bool sf_xml_is(const struct sf_xml *x, const char *name)
{
	return strlen(name) == x->name.len && memcmp(x->name.at, name, x->name.len) == 0;
}
