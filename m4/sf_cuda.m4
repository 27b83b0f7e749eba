# SF_CUDA - saves from CUDA memory. --with-cuda=auto|yes|no: no leaves them out. The runtime library is found when
# the program runs; its header, where it is there (11 and later), only checks our declarations: yes demands it.
# Sets the conditional HAVE_CUDA, CUDA_CFLAGS and, for the summary, sf_cuda.
AC_DEFUN([SF_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=auto|yes|no], [saves from CUDA memory])], [], [with_cuda=auto])
  CUDA_CFLAGS=
  sf_cuda_header=no
  AS_CASE([$with_cuda],
    [no], [sf_cuda="no (--without-cuda)"],
    [yes|auto], [
      AC_SEARCH_LIBS([dlopen], [dl])
      AC_MSG_CHECKING([for cuda_runtime_api.h of CUDA 11 or later])
      sf_cuda_CPPFLAGS=$CPPFLAGS
      for sf_dir in '' "$CUDA_HOME" "$CUDA_PATH" /usr/local/cuda; do
        CUDA_CFLAGS=
        AS_IF([test -n "$sf_dir"], [CUDA_CFLAGS="-isystem $sf_dir/include"])
        CPPFLAGS="$sf_cuda_CPPFLAGS $CUDA_CFLAGS"
        AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <cuda_runtime_api.h>
          #if CUDART_VERSION < 11000
          #error too old
          #endif]])], [sf_cuda_header=yes; break])
      done
      CPPFLAGS=$sf_cuda_CPPFLAGS
      AC_MSG_RESULT([$sf_cuda_header${CUDA_CFLAGS:+ ($sf_dir)}])
      AS_IF([test $sf_cuda_header = yes],
        [AC_DEFINE([SF_HAVE_CUDART_H], [1], [cuda_runtime_api.h is there: our declarations are checked by it])
         sf_cuda="yes (found at run time)"],
        [CUDA_CFLAGS=
         AS_IF([test "x$with_cuda" = xyes],
           [AC_MSG_ERROR([--with-cuda: cuda_runtime_api.h is not found; CUDA_HOME names its directory's parent])])
         sf_cuda="yes (found at run time; no header here)"])],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: use auto, yes or no])])
  AC_SUBST([CUDA_CFLAGS])
  AM_CONDITIONAL([HAVE_CUDA], [test "x$with_cuda" != xno])
])
