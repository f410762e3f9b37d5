//! Processes come home, and deliberately placed ones stay.

use std::collections::BTreeSet;
use std::process::Command;

use nodeward_model::{NodeId, PageLocation as On};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::balancer::{
    RoundLine, StateDir, assert_stayed, disable_numa_balancing, enter_cgroup, is_mostly_on,
    pid_options, start_load_away,
};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{
    Cpuset, affinities, control_group, cpu_ticks, last_cpu, pin_this_thread, set_affinity,
    wait_until, write,
};
use crate::load::LoadProcess;
use crate::nodeward::run_command;

pub const CASES: [(&str, CaseFn); 6] = [
    ("balance_brings_memory_home", brings_memory_home),
    ("balance_brings_threads_home", brings_threads_home),
    ("balance_once", once),
    ("balance_lets_stand", lets_stand),
    ("balance_after_a_kill", after_a_kill),
    ("balance_by_samples", by_samples),
];

/// Rounds in which nothing may move any more.
const QUIET: usize = 4;
/// Maximum number of rounds until no page moves for so many.
const REST: usize = 60;
/// Maximum number of single rounds until memory must be at home.
const ONCES: usize = 60;
/// Maximum number of times that threads are sent away until a balancer brings one home: the kernel
/// may be first.
const STRAYS: usize = 20;

/// Goal: four tasks on two nodes of one CPU each, all of whose memory is on node 0, get homes on
/// both nodes, and 95 % of the memory of each is at home in the end. No word is lost. After that no
/// page moves any more. The ledger has each page that moved, and why.
fn brings_memory_home() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("memory");
    let loads = [(); 4].map(|()| LoadProcess::start("--node 0 --unbind --size 4MiB"));
    let mut balance = place.start(&pid_options(&loads.each_ref()));
    let is_home = |round: &RoundLine| {
        let home = |load: &LoadProcess| round.home(load.pid());
        round.settled
            && loads.iter().all(|load| home(load).is_some_and(|it| is_mostly_on(load, it)))
    };
    let round = balance.wait_for_round("all are at home", is_home);
    let homes = loads.each_ref().map(|load| round.home(load.pid()));
    assert!(homes.contains(&Some(0)) && homes.contains(&Some(1)), "{homes:?}");
    // Of the 5 % that may be elsewhere, and of what was touched since, some may still follow.
    let mut quiet = 0;
    let mut before = Default::default();
    for _ in 0..REST {
        if quiet == 0 {
            before = loads.each_ref().map(LoadProcess::memory_by_node);
        }
        quiet = if balance.reload_and_next_round().moved_pages == 0 { quiet + 1 } else { 0 };
        if quiet == QUIET {
            break;
        }
    }
    assert_eq!(quiet, QUIET, "pages move for ever: {}", balance.stderr());
    assert_eq!(loads.each_ref().map(LoadProcess::memory_by_node), before);
    let (moved, nudged) = (balance.moved_pages, balance.nudged);
    assert_eq!(balance.stop().assert_success().moved_pages, moved);
    println!("homes {homes:?}: {moved} pages and {nudged} threads were brought there");
    let ledger = place.ledger();
    let told: u64 = ledger.iter().filter_map(|one| one["moved_pages"].as_u64()).sum();
    assert_eq!(told, moved, "{ledger:?}");
    for one in &ledger {
        let why = (&one["why"]["by"], &one["why"]["reason"], &one["state"]["name"]);
        assert_eq!(why, (&"balance".into(), &"pays".into(), &"ended".into()), "{one}");
    }
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}

/// Goal: two tasks, each of which runs on the node of the other's memory, change places. None of
/// their memory moves, and their affinity does not change.
fn brings_threads_home() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("threads");
    let loads = [0, 1].map(|node: u32| {
        pin_this_thread(&[1 - node as usize]);
        let load = LoadProcess::start(&format!("--node {node} --unbind --size 16MiB"));
        pin_this_thread(&[0, 1]);
        set_affinity(load.pid(), &[0, 1]);
        load
    });
    let mut balance = place.start(&pid_options(&loads.each_ref()));
    let is_home = |load: &LoadProcess, node| last_cpu(&load.other_thread()) == node;
    for strays in 0.. {
        balance.wait_for_round("both threads are at home", |round| {
            let homes = loads.each_ref().map(|load| round.home(load.pid()));
            homes == [Some(0), Some(1)] && is_home(&loads[0], 0) && is_home(&loads[1], 1)
        });
        if balance.nudged > 0 {
            println!("{} threads were brought home, after {strays} tries", balance.nudged);
            break;
        }
        assert!(strays < STRAYS, "{}", balance.stderr());
        for (away, load) in [1, 0].into_iter().zip(&loads) {
            set_affinity(load.pid(), &[away]);
            set_affinity(load.pid(), &[0, 1]);
        }
    }
    // Libraries and stacks are small, and may be anywhere.
    let pages: u64 = loads.iter().map(|load| load.ready.pages).sum();
    let ended = balance.stop().assert_success();
    assert!(ended.moved_pages * 50 < pages, "{ended:?}");
    for (node, load) in (0..).zip(loads) {
        assert_stayed(&load, node);
        assert_eq!(affinities(load.pid()), ["0-1".to_owned()].into());
        load.end();
    }
    Ok(())
}

/// Goal: single rounds, one after the other, bring memory home as well; each shows its actions, and
/// the next continues with the saved state. `explain` says why.
fn once() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("once");
    let load = start_load_away("--size 8MiB");
    let words = pid_options(&[&load]);
    let mut entities = BTreeSet::new();
    // On a slow guest the first sample may end early, and processes that it missed wait for a
    // while.
    for _ in 0..ONCES {
        let round: RoundLine = run_command(place.balance(&words).arg("--once")).json_after_exit(0);
        assert_eq!(round.home(load.pid()), Some(1), "{round:?}");
        entities.extend(round.process(load.pid()).map(|row| row.entity));
        if is_mostly_on(&load, 1) {
            break;
        }
    }
    assert!(is_mostly_on(&load, 1), "{:?}", load.memory_by_node());
    assert_eq!(entities.len(), 1, "{entities:?}");
    let explained = run_command(&mut place.command(&format!("explain {}", load.pid())));
    println!("{}", explained.stdout);
    assert_eq!(explained.code, 0, "{explained:?}");
    assert!(explained.stdout.contains("only-there"), "{explained:?}");
    load.end();
    Ok(())
}

/// Goal: memory with a policy of its own, an affinity, a cpuset and a frozen cgroup are respected,
/// and the reason says so; a cgroup that runs again is balanced again.
fn lets_stand() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("stand");
    pin_this_thread(&[1]);
    let bound = LoadProcess::start("--node 0 --size 8MiB");
    pin_this_thread(&[0, 1]);
    let shut_in = start_load_away("--size 8MiB");
    Cpuset::new("balance-node-0", "0")?.add_process(shut_in.pid());
    let pinned = start_load_away("--size 8MiB");
    let frozen = start_load_away("--size 8MiB");
    let group = control_group("balance-frozen", "memory")?;
    enter_cgroup(&group, frozen.pid());
    wait_until("it ran for a while", || cpu_ticks(&frozen.other_thread()) > 40);
    write(&format!("{group}/cgroup.freeze"), "1");
    let mut balance = place.start(&pid_options(&[&bound, &shut_in, &pinned, &frozen]));
    balance.wait_for_round("each has its reason", |round| {
        round.has_reason(bound.pid(), "explicit-policy")
            && round.has_reason(shut_in.pid(), "no-node-allowed")
            && round.has_reason(frozen.pid(), "frozen")
            && round.process(pinned.pid()).is_some_and(|row| row.home.is_some())
    });
    assert_eq!(balance.wait_until_home(&pinned), 1);
    assert_eq!(affinities(pinned.pid()), ["1".to_owned()].into());
    for load in [&bound, &shut_in, &frozen] {
        assert_stayed(load, 0);
    }
    write(&format!("{group}/cgroup.freeze"), "0");
    assert_eq!(balance.wait_until_home(&frozen), 1);
    balance.stop().assert_success();
    for load in [bound, shut_in, pinned, frozen] {
        load.end();
    }
    Ok(())
}

/// Goal: a balancer that is killed at any instant, repeatedly, leaves no thread with fewer CPUs and
/// no page lost. The next one continues: it knows the homes, and brings the rest there.
fn after_a_kill() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("killed");
    let away = start_load_away("--size 32MiB");
    let loads = [(); 2].map(|()| LoadProcess::start("--node 0 --unbind --size 8MiB"));
    let all = pid_options(&[&away, &loads[0], &loads[1]]);
    let words = format!("{all} --budget-per-process 4MiB/s");
    let mut entities = Vec::new();
    for more_rounds in 0..4 {
        let mut balance = place.start(&words);
        let round =
            balance.wait_for_round("it has a home", |round| round.home(away.pid()) == Some(1));
        entities.extend(round.process(away.pid()).map(|row| row.entity));
        if more_rounds == 0 {
            balance.wait_for_round("a move is on its way", |round| round.moved_pages > 0);
        }
        for _ in 0..more_rounds {
            balance.next_round();
        }
        println!("killed after {} pages and {} threads", balance.moved_pages, balance.nudged);
        balance.kill();
    }
    // The saved state of the process is found again; otherwise it would be a new entity with a new
    // number.
    assert!(entities.windows(2).all(|two| two[0] == two[1]), "{entities:?}");
    let mut balance = place.start(&all);
    assert_eq!(balance.wait_until_home(&away), 1);
    for load in &loads {
        balance.wait_until_home(load);
    }
    balance.stop().assert_success();
    let states: Vec<_> = place.ledger().iter().map(|one| one["state"]["name"].clone()).collect();
    println!("the ledger says {states:?}");
    assert!(states.contains(&"interrupted".into()), "{states:?}");
    assert_eq!(affinities(away.pid()), ["1".to_owned()].into());
    away.end();
    for load in loads {
        assert_eq!(affinities(load.pid()), ["0-1".to_owned()].into());
        load.end();
    }
    Ok(())
}

/// Goal: of a process that is wider than a node, the pages that samples attribute to node 1 move
/// there; those attributed to node 0, and those without samples, stay. Samples come through a pipe,
/// as from perf; their end is reported. (The machine has no counters: the samples are made up.)
fn by_samples() -> CaseOutcome {
    const PAGE: u64 = 4096;
    disable_numa_balancing()?;
    let place = StateDir::new("samples");
    let at = |name: &str| place.path().join(name).display().to_string();
    let (pipe, text) = (at("pipe"), at("text"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let load = LoadProcess::start("--node 0 --unbind --size 4MiB --threads 2");
    let sample = |page: u64, cpu: u32| {
        let (pid, address) = (load.pid(), load.range().start + page * PAGE);
        format!("load {pid}/{pid} [{cpu:03}] 1.234567: 20000 cpu/mem-loads/P: {address:x}\n")
    };
    let far = (100..300).map(|page| sample(page, 1));
    let near = (300..500).map(|page| sample(page, 0));
    std::fs::write(&text, far.chain(near).collect::<String>()).expect("a file");
    let again = format!("while cat {text}; do sleep 0.2; done > {pipe}");
    let mut perf = Command::new("sh").args(["-c", &again]).spawn().expect("a shell");
    let mut balance = place.start(&format!("{} --samples {pipe}", pid_options(&[&load])));
    let gone_there = || {
        let places = load.page_locations();
        let away = |place: &&On| **place != On::On(NodeId(0));
        (places[100..300].iter().filter(away).count(), places.iter().filter(away).count())
    };
    balance.wait_for_round("what is used from node 1 is there", |_| gone_there().0 == 200);
    for _ in 0..QUIET {
        balance.reload_and_next_round();
    }
    assert_eq!(gone_there(), (200, 200), "{}", balance.stderr());
    perf.kill().and_then(|()| perf.wait()).expect("our child can be killed");
    wait_until("the end of the samples is told", || balance.stderr().contains("have ended"));
    balance.stop().assert_success();
    load.end();
    Ok(())
}
