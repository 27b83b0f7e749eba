# fish completion for shardfuse. Verbs and options are asked of the program, so they are always its own.

function __shardfuse_verbs
    command shardfuse --help 2>/dev/null | sed -n '/^verbs:/,/^$/s/^  \([a-z][a-z-]*\)  *\(.*\)/\1\t\2/p'
end

function __shardfuse_verb
    set -l words (commandline -opc)
    if test (count $words) -ge 2; and contains -- $words[2] (__shardfuse_verbs | cut -f 1)
        echo $words[2]
    else
        echo mount
    end
end

function __shardfuse_options
    command shardfuse (__shardfuse_verb) --help 2>/dev/null | sed -n 's/^  .*\(--[a-z0-9_-]*\)[^ ]*\( [^ ]*\)\{0,1\}  *\(.*\)/\1\t\3/p'
end

# The keys of a checkpoint on this machine; a remote one would make the key press wait.
function __shardfuse_keys
    set -l words (commandline -opc)
    if test (count $words) -ge 3; and test -e $words[3]
        switch $words[2]
            case cat ls
                command shardfuse ls -R $words[3] 2>/dev/null | head -n 2000
            case info keys get stats
                command shardfuse keys $words[3] 2>/dev/null | head -n 2000
        end
    end
end

complete -c shardfuse -n 'test (count (commandline -opc)) -eq 1' -a '(__shardfuse_verbs)'
complete -c shardfuse -n 'string match -q -- "-*" (commandline -ct)' -a '(__shardfuse_options)'
complete -c shardfuse -a '(__shardfuse_keys)'
complete -c shardfuse -s h -l help -d 'options and an example'
