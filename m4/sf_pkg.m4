# SF_PKG_NEEDED(PREFIX, MODULE, DEBIAN-PACKAGE, FEDORA-PACKAGE)
# A library we cannot do without: PREFIX_CFLAGS and PREFIX_LIBS, or an error that says what to install.
AC_DEFUN([SF_PKG_NEEDED], [
  PKG_CHECK_MODULES([$1], [$2], [],
    [AC_MSG_ERROR([$2 is needed and was not found. Debian, Ubuntu: apt install $3; Fedora: dnf install $4])])
])

# SF_PKG_OPTIONAL(PREFIX, NAME, MODULE, VERSION, DEBIAN-PACKAGE, FEDORA-PACKAGE, WHAT-FOR)
# --with-NAME=auto|yes|no: yes and missing is an error, auto and missing a line in the summary (sf_NAME).
# VERSION is ">= N" or empty. Sets the conditional HAVE_PREFIX.
AC_DEFUN([SF_PKG_OPTIONAL], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no], [$7])], [], [with_$2=auto])
  AS_CASE([$with_$2],
    [no], [sf_$2="no (--without-$2)"],
    [yes|auto], [
      PKG_CHECK_MODULES([$1], [m4_normalize([$3 $4])],
        [sf_$2="yes (`$PKG_CONFIG --modversion $3`)"],
        [AS_IF([test "x$with_$2" = xyes],
           [AC_MSG_ERROR([--with-$2: m4_normalize([$3 $4]) was not found. Debian, Ubuntu: apt install $5; Fedora: dnf install $6])])
         sf_$2="no (not found: apt install $5, or dnf install $6)"])],
    [AC_MSG_ERROR([--with-$2=$with_$2: use auto, yes or no])])
  AM_CONDITIONAL([HAVE_$1], [case $sf_$2 in yes*) :;; *) false;; esac])
])
