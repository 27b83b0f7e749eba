# fish completion for shardfuse.
#
# `shardfuse --complete` says what may stand at the cursor; fish quotes it. Names come from checkpoints, which are other
# people's files: they are never expanded.

function __shardfuse_complete
    set -l words (commandline -opc)
    # (a quote that is still open is taken for closed)
    set -l cur (string unescape -- (commandline -ct); or string unescape -- (commandline -ct)"'"; or string unescape -- (commandline -ct)'"')
    set -l answer (command shardfuse --complete $words[2..-1] "$cur" 2>/dev/null | string split0)
    set -q answer[2]; or return
    switch $answer[1]
        case files
            __fish_complete_path (string sub -s (math (string length -- $answer[2]) + 1) -- $cur) | string replace -r '^' -- $answer[2]
        case dirs
            __fish_complete_directories (string sub -s (math (string length -- $answer[2]) + 1) -- $cur) '' | string replace -r '^' -- $answer[2]
    end
    for i in (seq 3 3 (count $answer))
        # where fish's own lines end, what it would trim, expand, or show raw
        string match -qr '[\n\t\x{80}-\x{9f}]|[^\P{Z} ]|^~' -- $answer[$i]; and continue
        test -n $answer[(math $i + 1)]; and printf '%s\t%s\n' $answer[$i] $answer[(math $i + 1)]; or printf '%s\n' $answer[$i]
    end
end

complete -c shardfuse -f -a '(__shardfuse_complete)'
