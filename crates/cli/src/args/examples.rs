//! Examples for the help and the manual, with their output, copied from runs in the lab.

/// Examples of `move`.
pub const MOVE: &str = "\
Examples:
  Move a process, gently, and see what would stay behind first:
    $ nodeward move 154 0 1 --dry-run
    $ nodeward move 154 0 1 --stall 1ms --rate 500MB/s

  Exchange two nodes, nearly full or not:
    $ nodeward move 177 154 0,1 1,0

  Move what is hot to where it is used:
    $ perf mem record -p 154 -- sleep 10
    $ nodeward move 154 --hot perf.data
    $ nodeward move 153 --hot soft-dirty:1s

  Bring the cached pages of a file to its readers:
    $ nodeward move --file model.bin 1

  Move on a simulated machine, in virtual time:
    $ nodeward move --machine sim:two-socket 1000 1 0 --jobs 4";

/// Examples of `spread`.
pub const SPREAD: &str = "\
Examples:
  Spread the buffer pool of a database over nodes 0 and 1, gently; see first what would move:
    $ nodeward spread --name postgres 0,1 --only shared,huge --dry-run
    $ nodeward spread --name postgres 0,1 --only shared,huge --stall 1ms --rate 500MB/s

  Three quarters of a process on node 0:
    $ nodeward spread 154 0,1 --weights 3,1

  Spread on a simulated machine, in virtual time:
    $ nodeward spread --machine sim:two-socket 1000 0,1";

/// Examples of `placement`.
pub const PLACEMENT: &str = "\
Examples:
  Keep the placement of a database over its restart; see first what would move:
    $ nodeward placement save 4711 db.placement
    $ systemctl restart db
    $ nodeward placement restore 4790 db.placement --dry-run
    $ nodeward placement restore 4790 db.placement --threads --stall 1ms

  The same for all processes of a name, in order of their ids:
    $ nodeward placement save --name postgres pg.placement
    $ nodeward placement restore --name postgres pg.placement";

/// Examples of `evacuate`.
pub const EVACUATE: &str = "\
Examples:
  What would move off node 1, and what would stay:
    $ nodeward evacuate 1 --dry-run

  Empty nodes 2 and 3, gently, with the cached files of processes and of a directory:
    $ nodeward evacuate 2,3 --files --file /srv --stall 1ms

  Off node 1, but to node 0 only:
    $ nodeward evacuate 1 0";

/// Examples of `group`.
pub const GROUP: &str = "\
Examples:
  Which groups would tell the parts of a program apart?
    $ nodeward group propose 4711

  Two threads and the segment that they use, near each other:
    $ nodeward group create kv
    1
    $ nodeward group add kv 4711 --thread 4715 --thread 4716 --memory 'file:/dev/shm/kv*'

  A whole process to node 1, and then anywhere:
    $ nodeward group create db --home 1
    $ nodeward group add db 4711
    $ nodeward group set-home db auto";

/// Examples of `undo`.
pub const UNDO: &str = "\
Example: a move was killed half-way.
    $ nodeward undo 3
    process 154
      node        before       after
      0         92.7 MiB     121 MiB
      1         28.2 MiB         0 B
      pages: 30947 selected = 7227 moved + 23720 already there + 0 skipped
    moved 28.2 MiB in 95.3 ms (296 MiB/s, 2 workers), verified in 6.69 ms
    nodeward undo 4 takes this back";

/// Examples of `ledger`.
pub const LEDGER: &str = "\
Examples:
    $ nodeward ledger
        ID  BEGAN                 STATE            MOVED  COMMAND
         3  2026-11-21T20:36:53Z  interrupted    121 MiB  nodeward move 154 0 1 --rate 20MB/s
         2  2026-11-21T20:36:52Z  ended          261 MiB  nodeward undo 1
         1  2026-11-21T20:36:52Z  ended          261 MiB  nodeward move 154 0 1
    $ nodeward ledger 3
    operation 3: it was interrupted: killed, or out of disk space
      began    2026-11-21T20:36:53Z
      command  nodeward move 154 0 1 --rate 20MB/s
    process 154 (nodeward-load)
      moved: node 0 -> node 1: 3811 pages (14.9 MiB) in 8 runs
      may have moved: node 0 -> node 1: 27136 pages (106 MiB) in 1 run";

/// Examples of `report`.
pub const REPORT: &str = "\
Examples:
  A process for half a minute:
    $ nodeward report 154 --for 30s -o report.html

  The whole machine for an hour, while nodeward balance runs:
    $ nodeward report --system --for 1h -o report.html

  The same as data:
    $ nodeward report --system --for 1h --json -o report.json

  A simulated machine, in virtual time:
    $ nodeward report --system --machine sim:home-2012 --for 20s -o report.html";

/// Examples of `bench pager`.
pub const BENCH_PAGER: &str = "\
Examples:
  Everything, in half a minute, and a picture of it:
    $ nodeward bench pager --svg pager.svg

  A region as large as your own, for longer, with 4 KiB pages and one or eight threads:
    $ nodeward bench pager --size 16GiB --time 10s --only 4k --lanes 1,8

  Move 1 TiB in all, by every method, and check every word:
    $ nodeward bench pager --soak 1TiB

  One number, for a script:
    $ nodeward bench pager --figure 4k-recycled-alone-2";

/// Examples of `bench pool`.
pub const BENCH_POOL: &str = "\
Examples:
  Everything, in some minutes, and a picture of it:
    $ nodeward bench pool --svg pool.svg

  Your own size and number of threads, single pages, without the other allocators:
    $ nodeward bench pool --bytes 16MiB --threads 8 --orders 0 --only kernel,pool-depth

  One number, for a script:
    $ nodeward bench pool --figure vs-kernel";

/// Examples of `bench calls`.
pub const BENCH_CALLS: &str = "\
Examples:
  Everything, in about a minute:
    $ nodeward bench calls

  What it costs to move a page, for a program:
    $ nodeward bench calls --only one-way,recycled --json

  One number, for a script:
    $ nodeward bench calls --figure migrate-4k";

/// Examples of `bench limits`.
pub const BENCH_LIMITS: &str = "\
Examples:
  What moving a page costs on this machine, by one thread and by more:
    $ nodeward bench limits

  How far the pager is from that, with one thread:
    $ nodeward bench pager --only 4k --lanes 1";

/// Examples of `sim`.
pub const SIM: &str = "\
Examples:
  The memory of a program on two sockets follows its threads after one second
    $ nodeward sim two-socket

  The same on a machine with slower links, with a plot and a trace
    $ nodeward sim two-socket --set machine.link-bandwidth=10GB/s --plot run.svg --trace run.json

  A scenario of your own (copy one of scenarios/ to begin with), for ten seconds of real time
    $ nodeward sim my-machine.toml --limit-wall 10s --json

  The same with nodeward at work, and the reason of each decision
    $ nodeward sim my-machine.toml --balance

  Check that the same seed gives the same run
    $ nodeward sim sixteen-nodes --limit 100ms --check-determinism";

/// Examples of `reproduce`.
pub const REPRODUCE: &str = "\
Examples:
  All tables, with pictures:
    $ nodeward reproduce --plot reproduce.svg

  What tuned per-CPU page lists are worth:
    $ nodeward reproduce pcp

  Rows outside of their tolerance, for scripts; exit code 8 if there are any:
    $ nodeward reproduce --json | jq '.tables[].rows[] | select(.verdict == \"outside\")'";

/// Examples of `sim sweep`.
pub const SWEEP: &str = "\
Examples:
  How much slower links cost, with three seeds each, on all CPUs
    $ nodeward sim sweep two-socket --grid machine.link-bandwidth=8GB/s..32GB/s*2 --seeds 1-3

  Two keys, rows in a file, and a picture; repeating the command continues an interrupted sweep
    $ nodeward sim sweep two-socket --grid machine.copiers=1..8*2 --grid machine.batch=64..4096*4 \\
        --measure moved_pages_per_s,stream.done_per_s --out copies.csv --plot copies.svg --resume

  Which points those are
    $ nodeward sim sweep two-socket --grid machine.latency=80ns,120ns --seeds 1-3 --dry-run

  The second of four parts, on another machine; in the end the files of all parts joined
    $ nodeward sim sweep two-socket --grid workload.stream.processes=1..32 --shard 2/4 --out 2.csv
    $ nodeward sim sweep --merge 1.csv 2.csv 3.csv 4.csv --out all.csv";

/// Examples of `sim compare`.
pub const COMPARE: &str = "\
Examples:
  All loads, with a picture of local accesses over time:
    $ nodeward sim compare --plot balancers.svg

  One load:
    $ nodeward sim compare 2012-split

  Your own, in a file as docs/how-to/write-a-scenario.md has it, with five seeds:
    $ nodeward sim compare ./mine.toml --seeds 5 --balancers nothing,kernel,nodeward

  Pages that move on a hundred machines with constant loads, once all memory is at home:
    $ nodeward sim compare --figure static --seeds 100

  One of them, as a scenario, for `nodeward balance --machine sim:machine.toml`:
    $ nodeward sim compare --figure static --from 7 --seeds 1 --print > machine.toml";

/// Examples of `balance`.
pub const BALANCE: &str = "\
Examples:
  What would it do here, and why:
    $ nodeward balance --dry-run

  Balance one kind of program until Ctrl-C, gently:
    $ nodeward balance --name postgres --budget 100MB/s

  Everything, as a service, with its settings in /etc/nodeward.toml:
    $ systemctl enable --now nodeward-balance

  On a simulated machine, for ten seconds of its time, each round as JSON:
    $ nodeward balance --machine sim:balance-2012 --json

  What it would do there with one of the processes, and why:
    $ nodeward explain 1003 --machine sim:balance-2012 --at 2s";

/// Examples of `run`.
pub const RUN: &str = "\
Examples:
  On the node with most idle CPU time:
    $ nodeward run ./solver input

  On node 1, and on its CPUs only:
    $ nodeward run --home 1 --pin -- ./solver --input x";

/// Examples of `explain`.
pub const EXPLAIN: &str = "\
Examples:
  Why pages stayed behind, as the account of a move names it:
    $ nodeward explain pinned

  What the balancer would do with process 154, and why:
    $ nodeward explain 154";

/// Examples of `export`.
pub const EXPORT: &str = "\
Examples:
  Beside a balancer that serves an agent:
    $ nodeward export --listen 127.0.0.1:9917 &
    $ curl http://127.0.0.1:9917/metrics

  As a service:
    $ systemctl enable --now nodeward-export";

/// Examples of `top`.
pub const TOP: &str = "\
Examples:
  Watch this machine; ? shows the keys:
    $ nodeward top

  The processes of a name, as the balancer sees and moves them:
    $ nodeward top --agent --filter postgres

  Ten refreshes for a script, one JSON object each:
    $ nodeward top --batch --json --iterations 10 --interval 5s

  Watch a simulated machine:
    $ nodeward top --machine sim:home-2012";

/// Examples of `pcp`.
pub const PCP: &str = "\
Examples:
  The page lists of all CPUs, and who sets their length:
    $ nodeward pcp show

  How those of node 0 change, ten times:
    $ nodeward pcp watch --node 0 --rounds 10

  What longer lists would save, and cost:
    $ nodeward pcp advise --for 10s

  Set that for ten minutes, on Linux 5.14 to 6.6:
    $ nodeward pcp tune --for 10min";

/// Examples of `watch`.
pub const WATCH: &str = "\
Examples:
  Who moves pages here?
    $ nodeward watch

  Ten seconds in one round, for a script:
    $ nodeward watch --for 10s --interval 10s --json

  What NUMA balancing and mbind(2) move in one process:
    $ nodeward watch 4711";
