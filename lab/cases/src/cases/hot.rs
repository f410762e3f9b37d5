//! `nodeward move PID --hot SOURCE`.

use nodeward_model::{NodeId, PageLocation};
use serde_json::Value;

use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{pin_this_thread, write};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, move_load, nodeward, skip_counts};

pub const CASES: [(&str, CaseFn); 5] = [
    ("hot_by_counts", by_counts),
    ("hot_by_perf", by_perf),
    ("hot_by_damon", by_damon),
    ("hot_by_written_pages", by_written_pages),
    ("hot_source_that_is_wrong", source_that_is_wrong),
];

const PAGE: u64 = 4096;
const FILE: &str = "/tmp/hot";

fn json(finished: &CommandOutput) -> Value {
    finished.json()
}

/// Goal: of the pages of a process that is wider than a node each moves to the node that uses it
/// most, if it is used enough for the move to pay; the others stay, with the reason.
fn by_counts() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --threads 0");
    let before = load.memory_by_node();
    // Distances 10 and 21, 100 ns locally: a remote miss costs 110 ns more. A page has 64 lines, 64
    // x 210 ns = 13.4 us, and 2 us for administration: 141 misses are worth a move, 140 are not.
    let line = |page: u64, node: u64, count: u64| {
        format!("{:x} {node} {count}\n", load.range().start + page * PAGE + 8)
    };
    let pages = |range: std::ops::Range<u64>, node, count| -> String {
        range.map(|page| line(page, node, count)).collect()
    };
    let text = "# address node count\n".to_owned()
        + &pages(0..1000, 1, 141)
        + &pages(1000..1500, 1, 140)
        + &pages(2000..2500, 0, 100_000)
        + &pages(2000..2500, 1, 99_000)
        + &pages(3000..3100, 0, 1000)
        + &pages(3000..3100, 1, 600)
        + &pages(3000..3100, 1, 600)
        + "10 1 500\n";
    std::fs::write(FILE, text).expect("a file");
    let planned = json(&nodeward(&format!("move --json --dry-run {} --hot {FILE}", load.pid())));
    assert_eq!(planned["hot"]["moves"][0]["pages"], 1100, "{planned}");
    let finished = move_load(&load, &format!("--hot {FILE}"));
    assert_eq!(finished.report_after_exit(0).account.moved, 1100);
    let hot = &json(&finished)["hot"];
    assert_eq!(hot["counted_pages"], 1000 + 500 + 500 + 100 + 1);
    let kept = &hot["kept_pages"];
    assert_eq!((&kept["does_not_pay"], &kept["here_already"]), (&500.into(), &500.into()));
    assert_eq!(kept["not_in_memory"], 1);
    let after = load.memory_by_node();
    assert_eq!((after[&1], after[&0]), (1100, before[&0] - 1100));
    // Moved back, and only the pages that gain most: 256 KiB are 64 pages.
    assert_eq!(nodeward(&format!("move --quiet {} 1 0", load.pid())).code, 0);
    let capped = move_load(&load, &format!("--hot {FILE} --hot-max 256KiB"));
    assert_eq!(capped.report_after_exit(0).account.moved, 64);
    assert_eq!(json(&capped)["hot"]["kept_pages"]["beyond_cap"], 1100 - 64);
    load.end();
    Ok(())
}

/// Goal: samples as perf script prints them count for the node of their CPU, if they are of this
/// process.
fn by_perf() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 4MiB");
    let tid = load.other_thread();
    let address = |page: u64| load.range().start + page * PAGE;
    let sample = |ids: &str, cpu: u32, page: u64| {
        let at = address(page);
        format!("nodeward-load {ids} [{cpu:03}] 12.345678: 20000 cpu/mem-loads/P: {at:x}\n")
    };
    let pid = load.pid();
    let text = sample(&format!("{pid}/{pid}"), 1, 3)
        + &sample(&format!("{pid}/{tid}"), 1, 7)
        + &sample(&tid, 1, 9)
        + &sample(&tid, 0, 11)
        + &sample("1/1", 1, 13);
    std::fs::write(FILE, &text).expect("a file");
    assert_eq!(move_load(&load, &format!("--hot {FILE}")).report_after_exit(0).account.moved, 3);
    assert_eq!(load.memory_by_node()[&1], 3);
    let other = LoadProcess::start("--node 0 --size 1MiB --threads 0");
    std::fs::write(FILE, sample("1/1", 1, 13)).expect("a file");
    let refused = move_load(&other, &format!("--hot {FILE}"));
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains("none of the 1 samples"), "{refused:?}");
    load.end();
    other.end();
    Ok(())
}

/// Starts a load of which the middle 16 of 64 MiB are written all the time, by a thread on node 1,
/// and another load on the same CPU. DAMON detects an access when the CPU next loads the page's
/// translation: an emulated CPU keeps all of them until it switches to another process.
fn busy_in_the_middle() -> [LoadProcess; 2] {
    pin_this_thread(&[1]);
    let load = LoadProcess::start("--node 0 --size 64MiB --hot 16MiB");
    let neighbour = LoadProcess::start("--node 1 --size 1MiB");
    pin_this_thread(&[0, 1]);
    [load, neighbour]
}

/// Returns the pages of the middle on node 1, and of the rest.
fn on_node_1(load: &LoadProcess) -> (u64, u64) {
    let places = load.page_locations();
    let (rest, middle): (Vec<_>, Vec<_>) = places.iter().enumerate().partition(|(page, _)| {
        // 24 of 64 MiB are before the middle, and as many after it.
        !(24 << 8..40 << 8).contains(page)
    });
    let arrived = |pages: Vec<(usize, &PageLocation)>| {
        pages.iter().filter(|(_, place)| **place == PageLocation::On(NodeId(1))).count() as u64
    };
    (arrived(middle), arrived(rest))
}

/// Number of attempts: on a busy host the emulated CPUs hardly run while DAMON samples, and its
/// regions stay coarse.
const DAMON_TRIES: u32 = 3;

/// Goal: the pages that DAMON finds hot move to the node of the threads, and most of the rest
/// stays.
fn by_damon() -> CaseOutcome {
    let stat = "/sys/module/damon_stat/parameters/enabled";
    if std::path::Path::new(stat).exists() {
        write(stat, "N");
    }
    let [load, neighbour] = busy_in_the_middle();
    for tries_left in (0..DAMON_TRIES).rev() {
        let finished = move_load(&load, "--hot damon:5s");
        if finished.code == 3 && finished.stderr.contains("not available") {
            load.end();
            return Err(CaseSkipped(finished.stderr.trim().to_owned()));
        }
        assert!(finished.stderr.contains("taking node 1"), "{finished:?}");
        let (middle, rest) = on_node_1(&load);
        println!("DAMON: {middle} of 4096 hot pages moved, and {rest} of the other 12288");
        // Regions are estimates with imprecise edges. By chance three others would come with each
        // hot page.
        if middle > 2048 && rest < 2 * middle {
            break;
        }
        assert!(tries_left > 0, "{finished:?}");
        assert_eq!(nodeward(&format!("move --quiet {} 1 0", load.pid())).code, 0);
    }
    load.end();
    neighbour.end();
    Ok(())
}

/// Goal: exactly the written pages move to the node of the threads.
fn by_written_pages() -> CaseOutcome {
    let [load, neighbour] = busy_in_the_middle();
    let finished = move_load(&load, "--hot soft-dirty:1s");
    let report = finished.report_after_exit(0);
    assert!(finished.stderr.contains("reads are not seen"), "{finished:?}");
    assert_eq!(on_node_1(&load), (4096, 0), "{report:?}");
    assert_eq!(report.account.skipped, skip_counts([]));
    load.end();
    neighbour.end();
    Ok(())
}

/// Goal: a source that cannot be used is refused before anything moves.
fn source_that_is_wrong() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 1MiB --threads 0");
    let before = load.pages_by_node();
    for (text, words) in [
        ("1000 0 7\nwhat\n", ["line 2", "ADDRESS"]),
        (&format!("PERFFILE{}", "\0".repeat(200)), ["format 1", "record it again"]),
        ("# nothing\n[000]\n", ["no sample of perf", "perf mem record"]),
        ("\u{1}\u{2}", ["neither text", "perf"]),
    ] {
        std::fs::write(FILE, text).expect("a file");
        let finished = move_load(&load, &format!("--hot {FILE}"));
        assert_eq!((finished.code, finished.stdout.as_str()), (2, ""), "{finished:?}");
        for word in words {
            assert!(finished.stderr.contains(word), "{word}: {finished:?}");
        }
    }
    move_load(&load, "0 1 --hot /tmp/hot").assert_refused(2, &["--hot takes one process"]);
    assert_eq!(load.pages_by_node(), before);
    load.end();
    Ok(())
}
