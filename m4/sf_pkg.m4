# Libraries, by pkg-config. What is missing is gathered and told at once, so that one install command mends it.

# SF_PKG_NEEDED(PREFIX, MODULE, DEBIAN-PACKAGE, FEDORA-PACKAGE)
# A library we cannot do without: PREFIX_CFLAGS and PREFIX_LIBS; SF_PKG_END fails when it is missing.
AC_DEFUN([SF_PKG_NEEDED], [
  PKG_CHECK_MODULES([$1], [$2], [], [_SF_PKG_MISSING([$2], [$3], [$4])])
])

# SF_PKG_OPTIONAL(PREFIX, NAME, MODULE, VERSION, DEBIAN-PACKAGE, FEDORA-PACKAGE, WHAT-FOR)
# --with-NAME=auto|yes|no: yes and missing fails in SF_PKG_END, auto and missing is a line in the summary (sf_NAME) and in
# SF_PKG_LEFT_OUT's warning. VERSION is ">= N" or empty. Sets the conditional HAVE_PREFIX.
AC_DEFUN([SF_PKG_OPTIONAL], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no], [$7])], [], [with_$2=auto])
  AS_CASE([$with_$2],
    [no], [sf_$2="no (--without-$2)"],
    [yes|auto], [
      PKG_CHECK_MODULES([$1], [m4_normalize([$3 $4])],
        [sf_$2="yes (`$PKG_CONFIG --modversion $3`)"],
        [AS_IF([test "x$with_$2" = xyes], [_SF_PKG_MISSING([m4_normalize([$3 $4])], [$5], [$6])],
           [sf_left_out="$sf_left_out${sf_left_out:+; }$7"
            sf_left_deb="$sf_left_deb $5"
            sf_left_rpm="$sf_left_rpm $6"])
         sf_$2="no (not found: apt install $5, or dnf install $6)"])],
    [AC_MSG_ERROR([--with-$2=$with_$2: use auto, yes or no])])
  AM_CONDITIONAL([HAVE_$1], [case $sf_$2 in yes*) :;; *) false;; esac])
])

# SF_LIB_OPTIONAL(PREFIX, NAME, HEADER, LIBRARY, FUNCTION, DEBIAN-PACKAGE, FEDORA-PACKAGE, WHAT-FOR)
# The same of a library that pkg-config does not know everywhere: told by its header and a function of it. PREFIX_LIBS.
AC_DEFUN([SF_LIB_OPTIONAL], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no], [$8])], [], [with_$2=auto])
  AS_CASE([$with_$2],
    [no], [sf_$2="no (--without-$2)"],
    [yes|auto], [
      sf_$2=yes
      AC_CHECK_HEADER([$3], [], [sf_$2=no])
      AC_CHECK_LIB([$4], [$5], [$1_LIBS=-l$4], [sf_$2=no])
      AS_IF([test $sf_$2 = no], [
        AS_IF([test "x$with_$2" = xyes], [_SF_PKG_MISSING([$4], [$6], [$7])],
          [sf_left_out="$sf_left_out${sf_left_out:+; }$8"
           sf_left_deb="$sf_left_deb $6"
           sf_left_rpm="$sf_left_rpm $7"])
        $1_LIBS=
        sf_$2="no (not found: apt install $6, or dnf install $7)"])],
    [AC_MSG_ERROR([--with-$2=$with_$2: use auto, yes or no])])
  AC_SUBST([$1_LIBS])
  AM_CONDITIONAL([HAVE_$1], [case $sf_$2 in yes*) :;; *) false;; esac])
])

# SF_PKG_END - after the last of these: an error that names all that is missing.
AC_DEFUN([SF_PKG_END], [
  AS_IF([test -n "$sf_missing"],
    [AC_MSG_ERROR([needed and not found: $sf_missing. Debian, Ubuntu: apt install$sf_missing_deb; Fedora: dnf install$sf_missing_rpm.${sf_left_out:+
  For $sf_left_out add:$sf_left_deb; Fedora:$sf_left_rpm}])])
])

# SF_PKG_LEFT_OUT - a warning of what this build will not have. `configure -q` prints it too, but not the summary.
AC_DEFUN([SF_PKG_LEFT_OUT], [
  AS_IF([test -n "$sf_left_out"],
    [AC_MSG_WARN([not in this build: $sf_left_out. Debian, Ubuntu: apt install$sf_left_deb; Fedora: dnf install$sf_left_rpm])])
])

# _SF_PKG_MISSING(MODULE, DEBIAN-PACKAGE, FEDORA-PACKAGE)
AC_DEFUN([_SF_PKG_MISSING], [
  sf_missing="$sf_missing${sf_missing:+, }$1"
  sf_missing_deb="$sf_missing_deb $2"
  sf_missing_rpm="$sf_missing_rpm $3"
])
