//! `nodeward balance --scheduler bpf` on real kernels.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::balancer::{
    BalancerProcess, StateDir, assert_stayed, disable_numa_balancing, pid_options,
};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{
    affinities, cpu_ticks, last_cpu, pin_this_thread, read, set_affinity, wait_until, write,
};
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 6] = [
    ("scheduler_runs_threads_at_home", runs_threads_at_home),
    ("scheduler_beside_nudges", beside_nudges),
    ("scheduler_uses_idle_cpus", uses_idle_cpus),
    ("scheduler_is_ejected", is_ejected),
    ("scheduler_of_two", of_two),
    ("scheduler_is_absent", is_absent),
];

const STATE: &str = "/sys/kernel/sched_ext/state";
const LOADED: &str = "/sys/kernel/sched_ext/root/ops";

fn wait_for_state(state: &str) {
    wait_until(state, || read(STATE).trim() == state);
}

/// Starts a balancer with the scheduler, and waits until that is loaded.
fn start_scheduler(place: &StateDir, words: &str) -> BalancerProcess {
    let balance = place.start(&format!("--scheduler bpf {words}"));
    wait_for_state("enabled");
    assert_eq!(read(LOADED).trim(), "nodeward_homes");
    balance
}

/// Two tasks, each of which runs on the node of the other's memory, and may run on both.
fn crossed_loads() -> [LoadProcess; 2] {
    [0, 1].map(|node: u32| {
        pin_this_thread(&[1 - node as usize]);
        let load = LoadProcess::start(&format!("--node {node} --unbind --size 16MiB"));
        pin_this_thread(&[0, 1]);
        set_affinity(load.pid(), &[0, 1]);
        load
    })
}

/// Waits until both threads run where their memory is.
fn wait_until_home(balance: &mut BalancerProcess, loads: &[LoadProcess; 2]) {
    balance.wait_for_round("both threads are at home", |round| {
        let is_home = |(node, load): (u32, &LoadProcess)| {
            round.home(load.pid()) == Some(node)
                && last_cpu(&load.other_thread()) == u64::from(node)
        };
        (0..).zip(loads).all(is_home)
    });
}

/// Goal: threads that are away come home by the scheduler: no affinity is set, no memory moves. At
/// SIGTERM it is unloaded, and after a kill -9 the kernel unloads it.
fn runs_threads_at_home() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("scheduler");
    let loads = crossed_loads();
    let words = pid_options(&loads.each_ref());
    let mut balance = start_scheduler(&place, &words);
    wait_until_home(&mut balance, &loads);
    assert_eq!(balance.nudged, 0, "{}", balance.stderr());
    let ended = balance.stop().assert_success();
    wait_for_state("disabled");
    let told = ended.stderr.lines().find(|line| line.contains("threads with a home ran"));
    println!("{}", told.expect("what it did"));
    start_scheduler(&place, &words).kill();
    wait_for_state("disabled");
    for (node, load) in (0..).zip(loads) {
        assert_stayed(&load, node);
        assert_eq!(affinities(load.pid()), ["0-1".to_owned()].into());
        load.end();
    }
    Ok(())
}

/// Returns the time of all CPUs and that in which they were idle, in hundredths of a second.
fn cpu_times() -> (u64, u64) {
    let text = read("/proc/stat");
    let all = text.lines().next().expect("a line for all CPUs");
    let times: Vec<u64> = all.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (times.iter().take(8).sum(), times[3] + times[4])
}

/// What two crossed tasks did beside a third one, which has no home.
struct Observed {
    /// Moments at which a task of the two was at home, per thousand.
    home_permille: u64,
    /// Writes of all three for each hundredth of a second of all CPUs, from their start on.
    work: f64,
    /// Time in which a CPU was idle, per thousand.
    idle_permille: u64,
}

/// Moments at which it is looked where tasks are, each with a pause, and thus 20 s.
const LOOKS: u64 = 1000;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Observes them, under a balancer with these words if there are any.
fn observe(words: Option<&str>) -> Observed {
    let place = StateDir::new("scheduler-beside");
    let (began, _) = cpu_times();
    let loads = crossed_loads();
    let third = LoadProcess::start("--node 0 --unbind --size 4MiB");
    let balance = words.map(|words| {
        let words = format!("{words} {}", pid_options(&loads.each_ref()));
        let mut balance = place.start(&words);
        balance.wait_for_round("both have a home", |round| {
            (0..).zip(&loads).all(|(node, load)| round.home(load.pid()) == Some(node))
        });
        balance
    });
    let tids = loads.each_ref().map(LoadProcess::other_thread);
    let (mut at_home, (all, idle)) = (0, cpu_times());
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK_PAUSE);
        at_home += (0..).zip(&tids).filter(|(node, tid)| last_cpu(tid) == *node).count() as u64;
    }
    let (all, idle) = (cpu_times().0 - all, cpu_times().1 - idle);
    let worked = cpu_times().0 - began;
    let writes: u64 = loads.into_iter().chain([third]).map(|load| load.end().writes).sum();
    balance.into_iter().for_each(|balance| _ = balance.stop().assert_success());
    Observed {
        home_permille: at_home * 1000 / (2 * LOOKS),
        work: writes as f64 / worked as f64,
        idle_permille: idle * 1000 / all,
    }
}

/// Goal: where three busy tasks share two CPUs, those that have a home are there at least as much
/// of the time as with nudges, and no CPU idles more than under the kernel's own scheduler, within
/// 2 points. What all three write is told, as a part of that under the kernel's own.
fn beside_nudges() -> CaseOutcome {
    disable_numa_balancing()?;
    let stock = observe(None);
    let nudged = observe(Some("--scheduler nudge"));
    let scheduled = observe(Some("--scheduler bpf"));
    for (figure, measured) in [
        ("home-stock", stock.home_permille as f64 / 10.0),
        ("home-nudged", nudged.home_permille as f64 / 10.0),
        ("home", scheduled.home_permille as f64 / 10.0),
        ("work-nudged", nudged.work / stock.work),
        ("work", scheduled.work / stock.work),
        ("idle", (scheduled.idle_permille as f64 - stock.idle_permille as f64) / 10.0),
    ] {
        println!("scheduler.{figure} {{\"measured\": {measured}}}");
    }
    assert!(scheduled.home_permille + 20 >= nudged.home_permille);
    assert!(scheduled.idle_permille <= stock.idle_permille + 20);
    Ok(())
}

/// Goal: four busy threads whose home is a node of two CPUs use the two CPUs of the other node,
/// too, and all get about as much.
fn uses_idle_cpus() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("scheduler-idle");
    let settings = place.path().join("settings.toml");
    let group = "[group.all]\nmatch = ['command:nodeward-load']\nhome = '0'\n";
    fs::write(&settings, group).expect("a file");
    let loads = [(); 4].map(|()| LoadProcess::start("--node 0 --unbind --size 4MiB"));
    let mut balance = start_scheduler(&place, &format!("--config {}", settings.display()));
    balance.wait_for_round("a group has its home", |round| round.settled);
    let ticks = || loads.each_ref().map(|load| cpu_ticks(&load.other_thread()));
    let (before, (all, idle)) = (ticks(), cpu_times());
    // 200 hundredths of a second of four CPUs each.
    wait_until("two seconds of work", || cpu_times().0 >= all + 800);
    let got: Vec<u64> = ticks().iter().zip(before).map(|(now, before)| now - before).collect();
    let (all, idle) = (cpu_times().0 - all, cpu_times().1 - idle);
    println!("threads got {got:?}; CPUs were idle for {idle} of {all}");
    assert!(idle * 10 <= all, "idle for {idle} of {all}");
    let (most, least) = (got.iter().max().copied(), got.iter().min().copied());
    assert!(least.map(|least| 2 * least) >= most, "{got:?}");
    balance.stop().assert_success();
    wait_for_state("disabled");
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}

/// Goal: when somebody has the kernel unload the scheduler, the balancer tells the kernel's reason
/// once, goes on, and nudges threads.
fn is_ejected() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("scheduler-ejected");
    let loads = crossed_loads();
    let mut balance = start_scheduler(&place, &pid_options(&loads.each_ref()));
    wait_until_home(&mut balance, &loads);
    write("/proc/sysrq-trigger", "S");
    wait_for_state("disabled");
    let round = balance.wait_for_round("the end is told", |round| !round.news.is_empty());
    assert_eq!(round.news[0]["kind"], "scheduler-ended", "{round:?}");
    assert_eq!(round.news[0]["reason"], "disabled by sysrq-S", "{round:?}");
    balance.wait_for_round("threads are nudged", |round| {
        for (away, load) in [1, 0].into_iter().zip(&loads) {
            set_affinity(load.pid(), &[away]);
            set_affinity(load.pid(), &[0, 1]);
        }
        round.nudged > 0
    });
    let ended = balance.stop().assert_success();
    assert_eq!(ended.count("scheduler-ended"), 1, "{ended:?}");
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}

/// Goal: a second balancer names the scheduler that is loaded, nudges, and leaves it there; so does
/// `doctor`.
fn of_two() -> CaseOutcome {
    disable_numa_balancing()?;
    let loads = crossed_loads();
    let words = pid_options(&loads.each_ref());
    let first = start_scheduler(&StateDir::new("scheduler-first"), &words);
    let second = StateDir::new("scheduler-second");
    let mut second = second.start(&format!("--scheduler bpf {words}"));
    second.next_round();
    let told = "threads are nudged, not scheduled: sched_ext has another scheduler, \
                'nodeward_homes'";
    assert!(second.stderr().contains(told), "{}", second.stderr());
    second.signal(Signal::TERM);
    assert_eq!(second.end().code, Some(0));
    assert_eq!(read(STATE).trim(), "enabled");
    first.stop().assert_success();
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}

/// Goal: a kernel without sched_ext is told so by name, and threads come home by nudges.
fn is_absent() -> CaseOutcome {
    disable_numa_balancing()?;
    assert!(!Path::new(STATE).exists());
    let loads = crossed_loads();
    let words = format!("--scheduler bpf {}", pid_options(&loads.each_ref()));
    let mut balance = StateDir::new("scheduler-absent").start(&words);
    wait_until_home(&mut balance, &loads);
    let told = "threads are nudged, not scheduled: this kernel has no sched_ext";
    assert!(balance.stderr().contains(told), "{}", balance.stderr());
    balance.stop().assert_success();
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}
