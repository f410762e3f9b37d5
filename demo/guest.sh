#!/bin/sh
# The demo inside the guest: one idea a step, every command shown before it runs.

SIZE=256MiB

title() {
    printf '\n-- %s\n\n' "$*"
}

# Shows a command and runs it.
run() {
    echo "\$ $*"
    "$@"
}

title "1. A machine with two memory nodes"
run nodeward show --topology

title "2. A process runs on node 1, but its memory is on node 0"
echo "It keeps writing to its $SIZE, and checks every word that it wrote."
echo
echo "\$ numactl --cpunodebind=1 nodeward-load --node 0 --size $SIZE --pause 5ms &"
numactl --cpunodebind=1 nodeward-load --node 0 --size $SIZE --pause 5ms >load.json &
pid=$!
until grep -q ready load.json; do
    kill -0 $pid || exit 1
    sleep 0.1
done
echo
run nodeward show --window 1s | sed -n '/^\$/p; /[Pp][Ii][Dd]/,$p'
echo
run nodeward show $pid

title "3. What a move would do"
run nodeward move --dry-run $pid 0 1

title "4. Move it, while it runs"
run nodeward move --progress always $pid 0 1 2>&1

title "5. Look again"
run nodeward show $pid

title "6. Beside migratepages, on the same process, in turns, whole commands"
run nodeward move --quiet $pid 1 0 >/dev/null
run nodeward-bench speed --pid $pid --size $SIZE --pairs 3 -- --jobs 2 2>&1 >/dev/null

title "7. What the process noticed"
echo "A thread of a process touches random pages; these are its waits for pages in flight."
echo
run nodeward-bench stall --size 128MiB --turns 1 --moves 4 -- --jobs 2 2>&1 >/dev/null

title "8. Nothing was lost"
kill $pid
wait $pid
tail -n 1 load.json
