/* What is wrong with a SOURCE: asked of its store, then tried. */
#ifndef SF_CLI_DOCTOR_SOURCE_H
#define SF_CLI_DOCTOR_SOURCE_H

#include "lib/session.h"
#include "store/probe.h"

/* Tells @say of everything; true: it can be mounted and read. @opt: its cache is not used. */
bool sf_doctor_source(const struct sf_session_options *opt, const char *source,
                      void (*say)(void *arg, enum sf_probe_state state, const char *what,
                                  const char *found, const char *remedy),
                      void *arg);

#endif
