//! Processes that are observed: this program again, in a role that a variable names.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use nodeward_model::{AccessKind, Pid};

/// The variable that names the role.
pub const ROLE: &str = "NODEWARD_TEST_ROLE";
/// The bytes of each walker's own memory: more than caches hold.
const WALKER_BYTES: usize = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// A thread of a target that uses its own memory and no other.
#[derive(Debug)]
pub struct Walker {
    /// The thread.
    pub tid: u32,
    /// Its memory.
    pub memory: Range<u64>,
    /// What it does there.
    pub kind: AccessKind,
}

/// A process that ends when this value is dropped.
#[derive(Debug)]
pub struct Target {
    child: Child,
    /// Held open: what the target still writes must not fail.
    output: BufReader<ChildStdout>,
    /// Its walkers.
    pub walkers: Vec<Walker>,
}

impl Target {
    /// Starts a process with a thread that reads, one that writes, and `idle` others.
    pub fn start(idle: usize) -> Self {
        let mut target = Self::spawn(&mut role(&format!("walk {idle}")));
        target.read_walkers();
        target
    }

    /// Starts a busy shell that becomes such a process when there is a file.
    pub fn start_as_shell(file: &Path) -> Self {
        let walk = role("walk 0");
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"until [ -e "$0" ]; do :; done; exec "$@""#]).arg(file);
        shell.arg(walk.get_program()).args(walk.get_args()).env(ROLE, "walk 0");
        Self::spawn(&mut shell)
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, walkers: Vec::new() }
    }

    /// Waits until its walkers walk.
    pub fn read_walkers(&mut self) {
        let lines = self.output.by_ref().lines().map_while(Result::ok);
        self.walkers = lines.filter_map(|line| walker(&line)).take(2).collect();
    }

    /// Returns its pid.
    pub fn pid(&self) -> Pid {
        Pid::new(self.child.id()).unwrap()
    }

    /// Kills it, and waits for its end.
    pub fn end(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the command that runs this program in a role.
pub fn role(role: &str) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "role", "--nocapture"]).env(ROLE, role);
    again
}

/// Returns the command that runs this program in a role as the user nobody, if this one is root.
pub fn role_without_privileges(name: &str) -> Command {
    let mut again = role(name);
    if rustix::process::geteuid().is_root() {
        again.uid(65_534).gid(65_534);
    }
    again
}

/// Walks until standard input ends.
pub fn walk(idle: usize) {
    (0..idle).for_each(|_| drop(idler()));
    for kind in [AccessKind::Read, AccessKind::Write] {
        thread::spawn(move || walk_own_memory(kind));
    }
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
}

fn idler() -> thread::JoinHandle<()> {
    let small = thread::Builder::new().stack_size(64 << 10);
    small.spawn(thread::park).unwrap()
}

/// Compares or fills chunks of own memory, in a scattered order.
fn walk_own_memory(kind: AccessKind) {
    let mut memory = vec![1_u8; WALKER_BYTES];
    let start = memory.as_ptr().addr();
    let tid = rustix::thread::gettid().as_raw_nonzero();
    println!("walker {tid} {start} {} {kind:?}", start + memory.len());
    let (chunks, step) = (WALKER_BYTES / CHUNK_BYTES, 7919);
    let (one, two) = memory.split_at_mut(WALKER_BYTES / 2);
    for chunk in (0..).map(|round: usize| round.wrapping_mul(step) % (chunks / 2)) {
        let part = chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES;
        match kind {
            AccessKind::Write => {
                one[part.clone()].fill(2);
                two[part].fill(2);
            }
            AccessKind::Read | AccessKind::Unknown => {
                black_box(one[part.clone()] == two[part]);
            }
        }
    }
}

fn walker(line: &str) -> Option<Walker> {
    let words: Vec<_> = line.strip_prefix("walker ")?.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    let kind = if words[3] == "Read" { AccessKind::Read } else { AccessKind::Write };
    Some(Walker { tid: number(0) as u32, memory: number(1)..number(2), kind })
}
