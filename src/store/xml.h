/* XML as servers of S3 send it, read strictly and without a tree. Pure. */
#ifndef SF_STORE_XML_H
#define SF_STORE_XML_H

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/error.h"

#define SF_XML_DEPTH_MAX 16

enum sf_xml_event {
	SF_XML_END,  /* the document is whole and was closed */
	SF_XML_OPEN, /* an element begins: name */
	SF_XML_TEXT, /* characters of the element: text; maybe in several pieces */
	SF_XML_CLOSE /* the last element that began and had not ended ends; also of <a/> */
};

struct sf_xml_name {
	const char *at; /* in the document */
	size_t len;
};

/*
 * A scanner over a document in memory. Read: name, text, depth. Elements that are open nest at
 * most SF_XML_DEPTH_MAX deep. Attributes are checked and left out, as are comments and processing
 * instructions. The five entities and numeric references are undone (not that of NUL, nor of what
 * is no character); a DTD, and so any other entity, is refused: nothing in a document makes it
 * longer. All of it must be UTF-8 without control characters.
 */
struct sf_xml {
	struct sf_xml_name name; /* of SF_XML_OPEN and SF_XML_CLOSE */
	struct sf_buf text; /* of SF_XML_TEXT: may hold what a reference stood for, but no NUL */
	unsigned depth;     /* elements that are open; after OPEN with the one that began */

	const char *start, *at, *end; /* the scanner's, as the rest is */
	bool closing, root_seen;
	struct sf_xml_name open[SF_XML_DEPTH_MAX];
};

/* @doc is borrowed until sf_xml_release(). */
void sf_xml_init(struct sf_xml *x, const char *doc, size_t len);
void sf_xml_release(struct sf_xml *x);

/* An enum sf_xml_event, or -EBADMSG with the byte, -E2BIG too deep, -ENOMEM. */
int sf_xml_next(struct sf_xml *x, struct sf_error *err);
/* After OPEN: to the CLOSE of that element. 0 or an error. */
int sf_xml_skip(struct sf_xml *x, struct sf_error *err);
/* After OPEN: the text of that element to its CLOSE, @to cleared first; elements in it are skipped.
 * 0 or an error; @to's own among them when it is too long. */
int sf_xml_text(struct sf_xml *x, struct sf_buf *to, struct sf_error *err);
bool sf_xml_is(const struct sf_xml *x, const char *name);

#endif
