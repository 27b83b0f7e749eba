/*
 * A server for the benchmarks of remote checkpoints: the files below a directory, by range over HTTP/1.1, and as a
 * minimal anonymous S3 (path style: the first folder is the bucket; lists of both versions).
 *
 *     object_server [--delay MS] [--rate MB_PER_S] [--port N] ROOT
 *
 * --delay: every answer begins so much later, as an object store's does. --rate: no connection gets more than that. It prints
 * its URL, then serves until it is ended; GET /_stats says what it did so far. A thread a connection, sendfile, keep-alive.
 * Not for anything but 127.0.0.1: it trusts whoever asks.
 */
#include "config.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 32768
#define PATH_LEN 4096
#define KEYS_MAX 1000             /* of a page */
#define SLICE ((size_t)256 << 10) /* what is sent at once where the rate is capped */

static const char *root;
static long delay_ms, rate; /* bytes a second of a connection; 0: no cap */
static _Atomic uint64_t requests, connections, body_bytes, lists;

struct conn {
	int fd;
	int64_t free_ns; /* when its rate lets it send again */
	size_t have;
	char buf[HEAD_MAX];
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static bool send_all(int fd, const char *at, size_t len, int flags)
{
	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL | flags);
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* ---- requests ---- */

static bool header(const char *head, const char *name, char *value, size_t size)
{
	size_t n = strlen(name);

	for (const char *l = strstr(head, "\r\n"); l; l = strstr(l + 2, "\r\n"))
		if (strncasecmp(l + 2, name, n) == 0 && l[2 + n] == ':') {
			const char *at = l + 3 + n + strspn(l + 3 + n, " ");
			snprintf(value, size, "%.*s", (int)strcspn(at, "\r"), at);
			return true;
		}
	return false;
}

/* %XX decoded, up to one of @ends. */
static void decode(const char *s, const char *ends, char *to, size_t size)
{
	size_t n = 0;
	unsigned v;

	for (; *s && !strchr(ends, *s) && n + 1 < size; s++) {
		v = (unsigned char)*s == '+' && strchr(ends, '&') ? ' ' : (unsigned char)*s;
		if (*s == '%' && sscanf(s + 1, "%2x", &v) == 1)
			s += 2;
		to[n++] = (char)v;
	}
	to[n] = '\0';
}

static bool param(const char *query, const char *name, char *value, size_t size)
{
	size_t n = strlen(name);

	for (const char *p = query; *p; p += strcspn(p, "&"), p += *p == '&')
		if (strncmp(p, name, n) == 0 && (p[n] == '=' || p[n] == '&' || !p[n])) {
			decode(p + n + (p[n] == '='), "&", value, size);
			return true;
		}
	return false;
}

static bool answer(struct conn *c, bool head, const char *status, const char *type,
                   const char *body)
{
	char text[512];
	int n = snprintf(text, sizeof(text),
	                 "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	                 "x-amz-bucket-region: us-east-1\r\n\r\n",
	                 status, type, strlen(body));

	return send_all(c->fd, text, (size_t)n, head ? 0 : MSG_MORE) &&
	       (head || send_all(c->fd, body, strlen(body), 0));
}

/* ---- lists ---- */

struct keys {
	char **at;
	size_t n, cap;
};

/* Files below root/bucket/dir, as keys. */
static void walk(struct keys *k, const char *bucket, const char *dir)
{
	char path[PATH_LEN], key[PATH_LEN];
	struct dirent *e;
	struct stat st;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s/%s", root, bucket, dir);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(key, sizeof(key), "%s%s", dir, e->d_name);
		if (fstatat(dirfd(d), e->d_name, &st, 0) < 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			strncat(key, "/", sizeof(key) - strlen(key) - 1);
			walk(k, bucket, key);
			continue;
		}
		if (k->n == k->cap) {
			k->cap = k->cap ? 2 * k->cap : 64;
			k->at = realloc(k->at, k->cap * sizeof(*k->at));
			if (!k->at)
				abort();
		}
		k->at[k->n++] = strdup(key);
	}
	if (d)
		closedir(d);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put(FILE *f, const char *key, bool url)
{
	for (; *key; key++)
		if (url ? !strchr("-_.~/", *key) && !((*key | 32) >= 'a' && (*key | 32) <= 'z') &&
		                    !(*key >= '0' && *key <= '9')
		        : false)
			fprintf(f, "%%%02X", (unsigned char)*key);
		else if (strchr("<>&", *key))
			fprintf(f, "&#%d;", *key);
		else
			fputc(*key, f);
}

static bool list(struct conn *c, const char *bucket, const char *query)
{
	char prefix[PATH_LEN] = "", delimiter[8] = "", from[PATH_LEN] = "", more[16],
	     path[PATH_LEN];
	bool v2 = param(query, "list-type", more, sizeof(more));
	bool url = param(query, "encoding-type", more, sizeof(more));
	size_t most = KEYS_MAX, n = 0, len, i = 0;
	char *text = NULL, last[PATH_LEN] = "";
	struct keys k = { 0 };
	struct stat st;
	FILE *f = open_memstream(&text, &len);

	if (param(query, "max-keys", more, sizeof(more)) && strtoul(more, NULL, 10) < most)
		most = strtoul(more, NULL, 10);
	param(query, "prefix", prefix, sizeof(prefix));
	param(query, "delimiter", delimiter, sizeof(delimiter));
	param(query, v2 ? "continuation-token" : "marker", from, sizeof(from));
	walk(&k, bucket, "");
	qsort(k.at, k.n, sizeof(*k.at), by_key);
	fprintf(f,
	        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\""
	        "http://s3.amazonaws.com/doc/2006-03-01/\"><Name>%s</Name>"
	        "<MaxKeys>%zu</MaxKeys><Prefix>",
	        bucket, most);
	put(f, prefix, url);
	fprintf(f, "</Prefix>%s", url ? "<EncodingType>url</EncodingType>" : "");
	for (; i < k.n && n < most; i++) {
		const char *key = k.at[i], *cut;
		char common[PATH_LEN], when[40];
		struct tm tm;
		if (strncmp(key, prefix, strlen(prefix)) != 0 || strcmp(key, from) <= 0 ||
		    (*from && from[strlen(from) - 1] == '/' &&
		     strncmp(key, from, strlen(from)) == 0))
			continue;
		cut = *delimiter ? strstr(key + strlen(prefix), delimiter) : NULL;
		if (cut) {
			snprintf(common, sizeof(common), "%.*s", (int)(cut - key + 1), key);
			if (strcmp(common, last) == 0)
				continue;
			memcpy(last, common, sizeof(last));
			fprintf(f, "<CommonPrefixes><Prefix>");
			put(f, common, url);
			fprintf(f, "</Prefix></CommonPrefixes>");
			n++;
			continue;
		}
		snprintf(last, sizeof(last), "%s", key);
		snprintf(path, sizeof(path), "%s/%s/%s", root, bucket, key);
		if (stat(path, &st) < 0)
			continue;
		gmtime_r(&st.st_mtime, &tm);
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S.000Z", &tm);
		fprintf(f, "<Contents><Key>");
		put(f, key, url);
		fprintf(f,
		        "</Key><LastModified>%s</LastModified><ETag>&quot;%" PRIx64 "-%" PRIx64
		        "&quot;</ETag><Size>%" PRIu64 "</Size><StorageClass>STANDARD</StorageClass>"
		        "</Contents>",
		        when, (uint64_t)st.st_mtime, (uint64_t)st.st_size, (uint64_t)st.st_size);
		n++;
	}
	fprintf(f, "<KeyCount>%zu</KeyCount><IsTruncated>%s</IsTruncated>", n,
	        i < k.n && n == most ? "true" : "false");
	if (i < k.n && n == most) {
		fprintf(f, v2 ? "<NextContinuationToken>" : "<NextMarker>");
		put(f, last, url && !v2);
		fprintf(f, v2 ? "</NextContinuationToken>" : "</NextMarker>");
	}
	fprintf(f, "</ListBucketResult>");
	fclose(f);
	for (i = 0; i < k.n; i++)
		free(k.at[i]);
	free(k.at);
	lists++;
	bool on = answer(c, false, "200 OK", "application/xml", text);
	free(text);
	return on;
}

/* ---- objects ---- */

static bool send_file(struct conn *c, int fd, off_t off, uint64_t len)
{
	while (len) {
		size_t want = rate && len > SLICE ? SLICE : len > (1u << 30) ? 1u << 30 : len;
		if (rate && c->free_ns > now_ns())
			sleep_until(c->free_ns);
		ssize_t n = sendfile(c->fd, fd, &off, want);
		if (n <= 0)
			return false;
		if (rate) {
			int64_t t = now_ns();
			c->free_ns = (c->free_ns > t ? c->free_ns : t) +
			             (int64_t)n * INT64_C(1000000000) / rate;
		}
		len -= (uint64_t)n;
		body_bytes += (uint64_t)n;
	}
	return true;
}

static bool object(struct conn *c, const char *path, const char *head, bool is_head)
{
	char file[2 * PATH_LEN], etag[64], value[256], text[768], range[96] = "", when[64];
	uint64_t first = 0, last, len;
	struct stat st;
	struct tm tm;
	int n, fd;
	bool part = false, on;

	snprintf(file, sizeof(file), "%s%s", root, path);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		return answer(c, is_head, "404 Not Found", "application/xml",
		              "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>");
	}
	len = (uint64_t)st.st_size;
	snprintf(etag, sizeof(etag), "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)st.st_mtime, len);
	if (header(head, "If-Match", value, sizeof(value)) && strcmp(value, etag) != 0) {
		close(fd);
		return answer(c, is_head, "412 Precondition Failed", "text/plain", "");
	}
	if (header(head, "Range", value, sizeof(value)) && len) {
		last = len - 1;
		if (sscanf(value, "bytes=%" SCNu64 "-%" SCNu64, &first, &last) >= 1)
			part = first < len;
		else if (sscanf(value, "bytes=-%" SCNu64, &last) == 1) {
			first = last < len ? len - last : 0;
			last = len - 1;
			part = true;
		}
		if (!part) {
			close(fd);
			return answer(c, is_head, "416 Range Not Satisfiable", "text/plain", "");
		}
		if (last >= len)
			last = len - 1;
		snprintf(range, sizeof(range),
		         "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", first,
		         last, len);
		len = last - first + 1;
	}
	gmtime_r(&st.st_mtime, &tm);
	strftime(when, sizeof(when), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	n = snprintf(text, sizeof(text),
	             "HTTP/1.1 %s\r\nContent-Length: %" PRIu64
	             "\r\n%sETag: %s\r\nLast-Modified: %s\r\n"
	             "Accept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\n\r\n",
	             part ? "206 Partial Content" : "200 OK", len, range, etag, when);
	on = send_all(c->fd, text, (size_t)n, is_head ? 0 : MSG_MORE) &&
	     (is_head || send_file(c, fd, (off_t)first, len));
	close(fd);
	return on;
}

static bool stats(struct conn *c)
{
	struct rusage u;
	char text[256];

	getrusage(RUSAGE_SELF, &u);
	snprintf(text, sizeof(text),
	         "{\"requests\":%" PRIu64 ",\"lists\":%" PRIu64 ",\"connections\":%" PRIu64
	         ",\"bytes\":%" PRIu64 ",\"cpu_s\":%.3f}\n",
	         requests, lists, connections, body_bytes,
	         (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	                 (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	return answer(c, false, "200 OK", "application/json", text);
}

static bool one(struct conn *c, const char *head)
{
	char method[16], target[2 * PATH_LEN], path[PATH_LEN], bucket[256] = "", some[8];
	const char *query;
	bool is_head;

	if (sscanf(head, "%15s %8191s", method, target) != 2)
		return false;
	if (strncmp(target, "http://", 7) == 0) /* as to a proxy, which Amazon's C++ client does */
		memmove(target, target + 7 + strcspn(target + 7, "/"),
		        strlen(target + 7 + strcspn(target + 7, "/")) + 1);
	if (strcmp(target, "/_stats") == 0)
		return stats(c);
	requests++;
	if (delay_ms)
		sleep_until(now_ns() + delay_ms * INT64_C(1000000));
	is_head = strcmp(method, "HEAD") == 0;
	if (!is_head && strcmp(method, "GET") != 0)
		return answer(c, false, "501 Not Implemented", "application/xml",
		              "<Error><Code>NotImplemented</Code></Error>");
	query = strchr(target, '?') ? strchr(target, '?') + 1 : "";
	decode(target, "?", path, sizeof(path));
	if (strstr(path, "/.."))
		return answer(c, is_head, "404 Not Found", "text/plain", "");
	sscanf(path, "/%255[^/]", bucket);
	if (strcmp(path + 1 + strlen(bucket), "") != 0 &&
	    strcmp(path + 1 + strlen(bucket), "/") != 0)
		return object(c, path, head, is_head);
	if (is_head)
		return answer(c, true, "200 OK", "application/xml", "");
	if (param(query, "location", some, sizeof(some)))
		return answer(
			c, false, "200 OK", "application/xml",
			"<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>");
	return list(c, bucket, query);
}

static void *serve(void *arg)
{
	struct conn *c = arg;
	char head[HEAD_MAX + 1];
	bool on = true;

	while (on) {
		char *end = memmem(c->buf, c->have, "\r\n\r\n", 4);
		if (end) {
			size_t n = (size_t)(end - c->buf) + 4;
			memcpy(head, c->buf, n);
			head[n] = '\0';
			memmove(c->buf, c->buf + n, c->have - n);
			c->have -= n;
			on = one(c, head);
			continue;
		}
		ssize_t got = c->have < HEAD_MAX
		                      ? recv(c->fd, c->buf + c->have, HEAD_MAX - c->have, 0)
		                      : 0;
		on = got > 0;
		c->have += on ? (size_t)got : 0;
	}
	close(c->fd);
	free(c);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "delay", required_argument, NULL, 'd' },
		                                 { "rate", required_argument, NULL, 'r' },
		                                 { "port", required_argument, NULL, 'p' },
		                                 { NULL, 0, NULL, 0 } };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	pthread_attr_t detached;
	int o, one_ = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (o) {
		case 'd':
			delay_ms = atol(optarg);
			break;
		case 'r':
			rate = (long)(atof(optarg) * 1e6);
			break;
		case 'p':
			at.sin_port = htons((uint16_t)atoi(optarg));
			break;
		default:
			return 2;
		}
	if (optind + 1 != argc) {
		fprintf(stderr,
		        "usage: object_server [--delay MS] [--rate MB_PER_S] [--port N] ROOT\n");
		return 2;
	}
	root = argv[optind];
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one_, sizeof(one_));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 512) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
		perror("object_server");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	printf("http://127.0.0.1:%u\n", ntohs(at.sin_port));
	fflush(stdout);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	while ((conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct conn *c = calloc(1, sizeof(*c));
		pthread_t t;
		connections++;
		setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one_, sizeof(one_));
		if (c)
			c->fd = conn;
		if (!c || pthread_create(&t, &detached, serve, c)) {
			close(conn);
			free(c);
		}
	}
	return 0;
}
