//! The balancers, as data.

use nodeward_runner::BalancerSpec;

/// A balancer, with the guest's requirements for it.
#[derive(Clone, Debug)]
pub struct BalancerSetup {
    /// The commands that start and stop it.
    pub balancer: BalancerSpec,
    /// Its description, in a sentence.
    pub about: &'static str,
    /// The programs that it needs.
    pub programs: Vec<GuestProgram>,
    /// True for a daemon, which runs before tasks begin.
    pub is_daemon: bool,
    /// True if a run in which the balancer moved no page is invalid.
    pub must_move: bool,
}

/// A program for the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestProgram {
    /// The program of this path in the Debian package of this name.
    Debian(&'static str, &'static str),
    /// A program of the workspace.
    Ours(&'static str),
}

/// Returns all balancers. The first is the reference for the others.
pub fn balancers() -> Vec<BalancerSetup> {
    let nothing = setup("nothing", "the scheduler alone");
    let mut kernel = setup("kernel", "kernel.numa_balancing=1");
    kernel.balancer.numa_balancing = true;
    let mut hand = setup("hand", "threads pinned and memory bound when the tasks start");
    hand.balancer.is_manual = true;
    vec![nothing, kernel, numad(), hand, nodeward(), pinning(), cooperating(), hot()]
}

/// numad. In the first five minutes after boot it moves nothing, because it takes a process that it
/// has never placed for one that it placed at time zero. Its clock is therefore set forward. By
/// default it adds 18 % to the usage of a process: one that uses all CPUs of a node would always
/// get two nodes.
fn numad() -> BalancerSetup {
    let mut numad =
        setup("numad", "Debian's package numad with `-u 120`, as after five minutes of uptime");
    numad.programs = vec![
        GuestProgram::Debian("numad", "usr/bin/numad"),
        GuestProgram::Debian("util-linux", "usr/bin/unshare"),
    ];
    numad.must_move = true;
    numad.is_daemon = true;
    numad.balancer.warm_up_command = words("numad -V");
    numad.balancer.start_command = words("unshare --time --monotonic 600 -- numad -u 120 -l 6");
    numad.balancer.log_file = "/var/log/numad.log".to_owned();
    numad.balancer.process_name = "numad".to_owned();
    numad.balancer.stop_command = words("numad -i 0");
    numad
}

/// nodeward. The emulator needs tens of times as long as the modelled machine for a sample, and for
/// a page move.
fn nodeward() -> BalancerSetup {
    let mut nodeward = setup("nodeward", "`nodeward balance --cpu-budget 60ms --stall 20ms`");
    nodeward.programs = vec![GuestProgram::Ours("nodeward")];
    nodeward.is_daemon = true;
    nodeward.balancer.warm_up_command =
        words("nodeward balance --once --dry-run --run-time-min 1ms");
    nodeward.balancer.start_command = words("nodeward balance --cpu-budget 60ms --stall 20ms");
    nodeward.balancer.process_name = "nodeward".to_owned();
    nodeward.balancer.report_command = words("nodeward ledger --json");
    nodeward
}

/// nodeward with `--pin`: keeps threads at home whatever the scheduler wants, as numad does.
fn pinning() -> BalancerSetup {
    let mut pinning = nodeward();
    pinning.about = "`nodeward balance --pin --cpu-budget 60ms --stall 20ms`";
    pinning.balancer.name = "nodeward-pin".to_owned();
    pinning.balancer.start_command.extend(words("--pin"));
    pinning
}

/// nodeward beside the kernel's balancing. The kernel counts the pages of both together, so there
/// is nothing to hold the ledger against.
fn cooperating() -> BalancerSetup {
    let mut cooperating = nodeward();
    cooperating.about = "kernel.numa_balancing=1, and `nodeward balance --rivals cooperate \
                         --cpu-budget 60ms --stall 20ms`";
    cooperating.balancer.name = "cooperate".to_owned();
    cooperating.balancer.numa_balancing = true;
    cooperating.balancer.start_command.extend(words("--rivals cooperate"));
    cooperating.balancer.report_command = Vec::new();
    cooperating
}

/// Counts for some seconds, then moves once. Without counts of frames there is nothing to move.
const HOT: &str = "sleep 2; for pid; do nodeward-bench counts $pid > /tmp/counts; \
    grep -q . /tmp/counts && nodeward move --progress never $pid --hot /tmp/counts; done; true";

/// `nodeward move --hot`. The lab's counts of frames replace those of a machine's own counters.
fn hot() -> BalancerSetup {
    let mut hot = setup("hot", "`nodeward move --hot`, once, by the counts of the first 2 s");
    hot.programs = vec![GuestProgram::Ours("nodeward"), GuestProgram::Ours("nodeward-bench")];
    hot.balancer.start_command = ["sh", "-c", HOT, "hot", "{pids}"].map(str::to_owned).into();
    hot.balancer.process_name = "nodeward".to_owned();
    hot.balancer.report_command = words("nodeward ledger --json");
    hot
}

fn setup(name: &str, about: &'static str) -> BalancerSetup {
    let balancer = BalancerSpec { name: name.to_owned(), ..BalancerSpec::default() };
    BalancerSetup { balancer, about, programs: Vec::new(), is_daemon: false, must_move: false }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
