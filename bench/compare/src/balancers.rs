//! The balancers, as data.

use nodeward_stage::Balancer;

/// A balancer, with the guest's requirements for it.
#[derive(Clone, Debug)]
pub struct Contender {
    /// The commands that start and stop it.
    pub balancer: Balancer,
    /// Its description, in a sentence.
    pub about: &'static str,
    /// The programs that it needs.
    pub needs: Vec<Program>,
    /// Whether it is a daemon, which runs before tasks begin.
    pub is_daemon: bool,
    /// Whether a run in which it moved no page is invalid.
    pub must_move: bool,
}

/// A program for the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The program of this path in the Debian package of this name.
    Debian(&'static str, &'static str),
    /// A program of the workspace.
    Ours(&'static str),
}

/// Returns all balancers. The first is the reference for the others.
pub fn contenders() -> Vec<Contender> {
    let nothing = contender("nothing", "the scheduler alone");
    let mut kernel = contender("kernel", "kernel.numa_balancing=1");
    kernel.balancer.kernel = true;
    let mut hand = contender("hand", "threads pinned and memory bound when the tasks start");
    hand.balancer.by_hand = true;
    vec![nothing, kernel, numad(), hand, nodeward(), pinning(), hot()]
}

/// numad. In the first five minutes after boot it moves nothing, because it takes a process that it
/// has never placed for one that it placed at time zero. Its clock is therefore set forward. By
/// default it adds 18 % to the usage of a process: one that uses all CPUs of a node would always
/// get two nodes.
fn numad() -> Contender {
    let mut numad =
        contender("numad", "Debian's package numad with `-u 120`, as after five minutes of uptime");
    numad.needs = vec![
        Program::Debian("numad", "usr/bin/numad"),
        Program::Debian("util-linux", "usr/bin/unshare"),
    ];
    numad.must_move = true;
    numad.is_daemon = true;
    numad.balancer.before = words("numad -V");
    numad.balancer.start = words("unshare --time --monotonic 600 -- numad -u 120 -l 6");
    numad.balancer.log = "/var/log/numad.log".to_owned();
    numad.balancer.process = "numad".to_owned();
    numad.balancer.stop = words("numad -i 0");
    numad
}

/// nodeward. The emulator needs tens of times as long as the modelled machine for a sample, and for
/// a page move.
fn nodeward() -> Contender {
    let mut nodeward = contender("nodeward", "`nodeward balance --looking 60ms --stall 20ms`");
    nodeward.needs = vec![Program::Ours("nodeward")];
    nodeward.is_daemon = true;
    nodeward.balancer.before = words("nodeward balance --once --dry-run --run-time-min 1ms");
    nodeward.balancer.start = words("nodeward balance --looking 60ms --stall 20ms");
    nodeward.balancer.process = "nodeward".to_owned();
    nodeward.balancer.tells = words("nodeward ledger --json");
    nodeward
}

/// nodeward with `--pin`: keeps threads at home whatever the scheduler wants, as numad does.
fn pinning() -> Contender {
    let mut pinning = nodeward();
    pinning.about = "`nodeward balance --pin --looking 60ms --stall 20ms`";
    pinning.balancer.name = "nodeward-pin".to_owned();
    pinning.balancer.start.extend(words("--pin"));
    pinning
}

/// Counts for some seconds, then moves once. Without counts of frames there is nothing to move.
const HOT: &str = "sleep 2; for pid; do nodeward-bench counts $pid > /tmp/counts; \
    grep -q . /tmp/counts && nodeward move --progress never $pid --hot /tmp/counts; done; true";

/// `nodeward move --hot`. The lab's counts of frames replace those of a machine's own counters.
fn hot() -> Contender {
    let mut hot = contender("hot", "`nodeward move --hot`, once, by the counts of the first 2 s");
    hot.needs = vec![Program::Ours("nodeward"), Program::Ours("nodeward-bench")];
    hot.balancer.start = ["sh", "-c", HOT, "hot", "{pids}"].map(str::to_owned).into();
    hot.balancer.process = "nodeward".to_owned();
    hot.balancer.tells = words("nodeward ledger --json");
    hot
}

fn contender(name: &str, about: &'static str) -> Contender {
    let balancer = Balancer { name: name.to_owned(), ..Balancer::default() };
    Contender { balancer, about, needs: Vec::new(), is_daemon: false, must_move: false }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
