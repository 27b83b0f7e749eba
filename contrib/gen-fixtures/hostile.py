"""Names that somebody might give a key so that a shell, a Python prompt or a terminal does something when it is shown or completed.

A command in one of them leaves a file called PWNED behind.
"""

SHELL = ["$(>PWNED)", "`>PWNED`", "$(>PWNED", "${IFS}x", "$HOME", "a;>PWNED;", "a|>PWNED", "a&>PWNED&", "a>PWNED", "a<b", "x (>PWNED)", "{a,b}", "~", "~root", "!!", "#x",
         "*", "?", "[0:2]", "[a-z]", "=ls", "a(e:'>PWNED':)", "<(>PWNED)", "(>PWNED)", "^a^b", "%F{red}z%f", "a=b", "a:b", "@x", "-rf", "--force", "--format=raw", "a,b", "x\\"]
QUOTES = ["it's", 'say "hi"', "it's \"both\"", "'", '"', "\\", "\\'", "'$(>PWNED)'", "\"$(>PWNED)\"", "'; >PWNED; '", "back\\slash", "$'\\x41'"]
PYTHON = ['m"); __import__("os").system(">PWNED") #', "m'); __import__('os').system('>PWNED') #", '\\"); __import__("os").system(">PWNED") #', "{0.__class__}", "%s%n%d", "\\N{DIGIT ONE}",
          'm"""', "\\x41"]
CONTROL = ["\x1b[31mred", "\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x07", "\x7f", "\x08\x08\x08over", "new\nline", "new\n$(>PWNED)", "cr\rover", "tab\there", "\x0e",
           "\u202etxet", "zero\u200bwidth", "\ufeffbom", "\u2028sep", "\x85nel"]
BLANKS = ["a b", " lead", "trail ", "two  blanks", "\u00a0nbsp", "\u3000wide"]
PLAIN = ["w", "émile", "中文", "a/b", "é%2F"]
ALL = SHELL + QUOTES + PYTHON + CONTROL + BLANKS + PLAIN
GROUPS = ["$(>PWNED)", "`>PWNED`", 'm"); __import__("os").system(">PWNED") #', "m'); __import__('os').system('>PWNED') #", "it's", 'say "hi"', "back\\slash\\", "new\nline", "\x1b[31mred",
          "\x9b31m", "a b", "-rf", "\u202etxet"]
