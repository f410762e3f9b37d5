//! A PostgreSQL server in the guest, and pgbench, which uses it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::case_outcome::CaseSkipped;
use crate::guest::{self, UNPRIVILEGED_USER, read, wait_until};
use crate::nodeward::run_command;
use crate::numa_maps::{PagesByNode, pages_within};

/// Clients of pgbench, with a backend each.
pub const CLIENTS: u32 = 4;
/// The directory of Debian's packages, by version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// A cluster as initdb made it, which the run brought along.
const DATA: &str = "/srv/postgres";
/// Nothing survives the guest, so nothing waits for disks. No work begins by itself, and backends
/// have no helpers.
const SETTINGS: [&str; 7] = [
    "huge_pages=off",
    "fsync=off",
    "autovacuum=off",
    "max_parallel_workers_per_gather=0",
    "checkpoint_timeout=1h",
    "listen_addresses=",
    "unix_socket_directories=/tmp",
];
/// The client's end of the same socket.
const CLIENT: [&str; 4] = ["-h", "/tmp", "-U", "postgres"];
const LOG: &str = "/tmp/postgres-log";
/// Where pgbench logs transactions; it adds its pid.
const BENCH_LOG: &str = "/tmp/pgbench-log";
/// A statement that fails if accounts and history differ. It reads all accounts, so each backend
/// touches most of the segment.
const SUMS: &str = "SELECT 1 / (sum(abalance) = \
    (SELECT coalesce(sum(delta), 0) FROM pgbench_history))::int FROM pgbench_accounts;\n";
const SUMS_FILE: &str = "/tmp/sums.sql";
/// Seconds that are more than any case takes.
const LONG: &str = "86400";

/// A running server. It is killed when the value is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    child: Child,
    programs: PathBuf,
}

/// The report of pgbench.
#[derive(Debug)]
pub struct BenchReport {
    /// Transactions per second, without the time to connect.
    pub tps: f64,
    /// Transactions that wrote.
    pub written: u64,
}

/// A transaction that wrote, as the log of pgbench has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedTransaction {
    /// When its client had the answer.
    pub ended: Duration,
    /// How long the client waited for that.
    pub took: Duration,
}

/// pgbench while it runs.
#[derive(Debug)]
pub struct RunningBench(Child);

/// A client that waits until the value is dropped.
#[derive(Debug)]
pub struct WaitingClient(Child);

impl Drop for WaitingClient {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl PostgresServer {
    /// Starts a server with a segment for `segment_mib` MiB of pages as an unprivileged user, and
    /// waits until it answers.
    pub fn start(segment_mib: u64) -> Result<Self, CaseSkipped> {
        let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin")).next();
        let programs =
            programs.ok_or_else(|| CaseSkipped("PostgreSQL was not brought along".to_owned()))?;
        let user = UNPRIVILEGED_USER.to_string();
        guest::run("chown", &["-R", &format!("{user}:{user}"), DATA]);
        guest::run("chmod", &["700", DATA]);
        let mut command = Command::new(programs.join("postgres"));
        command.args(["-D", DATA]).uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
        SETTINGS.iter().for_each(|setting| _ = command.args(["-c", setting]));
        command.args(["-c", &format!("shared_buffers={segment_mib}MB")]);
        let log = File::create(LOG).expect("a file");
        let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("postgres starts");
        let server = Self { child, programs };
        let mut ask = server.client("psql");
        ask.args(["-Atc", "SELECT 1", "postgres"]).stderr(Stdio::null());
        wait_until("PostgreSQL answers", || ask.output().is_ok_and(|told| told.stdout == b"1\n"));
        Ok(server)
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(CLIENT).stdin(Stdio::null());
        command
    }

    /// Returns the server's answer to a query.
    pub fn answer(&self, query: &str) -> String {
        let output = run_command(self.client("psql").args(["-Atc", query, "postgres"]));
        assert_eq!(output.code, 0, "{query}: {output:?} {}", read(LOG));
        output.stdout.trim().to_owned()
    }

    /// Returns the number of transactions that pgbench wrote.
    pub fn transactions(&self) -> u64 {
        self.answer("SELECT count(*) FROM pgbench_history").parse().expect("a number")
    }

    /// Creates the tables of pgbench. The server makes the rows, so that they stay in its segment:
    /// rows that are copied pass through a small part of it.
    pub fn create_tables(&self, scale: u32) {
        let mut command = self.client("pgbench");
        command.args(["-q", "-i", "-I", "dtGp", "-s", &scale.to_string(), "postgres"]);
        let output = run_command(&mut command);
        assert_eq!(output.code, 0, "{output:?}");
        fs::write(SUMS_FILE, SUMS).expect("a file");
    }

    /// Fills `mib` MiB of the segment with the rows of a table, of which each has a page.
    pub fn fill_segment(&self, mib: u64) {
        self.answer("CREATE TABLE ballast (number int, filler text)");
        self.answer("ALTER TABLE ballast ALTER filler SET STORAGE PLAIN");
        let pages = mib * 128;
        let rows = "INSERT INTO ballast SELECT number, repeat('x', 7000) FROM generate_series";
        self.answer(&format!("{rows}(1, {pages}) AS number"));
    }

    /// Lets a client read the table that fills the segment, and then do nothing: its backend has
    /// all of it in its page table.
    pub fn read_all_and_wait(&self) -> WaitingClient {
        let mut command = self.client("psql");
        command.args(["-At", "-c", "SELECT sum(number) FROM ballast"]);
        command.args(["-c", &format!("SELECT pg_sleep({LONG})"), "postgres"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("psql starts");
        let mut line = String::new();
        let told = BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line);
        assert!(told.is_ok() && !line.is_empty(), "{}", read(LOG));
        WaitingClient(child)
    }

    /// Starts pgbench, and waits until one has written.
    pub fn start_bench(&self) -> RunningBench {
        let (clients, sums) = (CLIENTS.to_string(), format!("{SUMS_FILE}@1"));
        self.start_bench_with(&["-c", &clients, "-b", "tpcb-like@30", "-f", &sums])
    }

    /// Starts one that logs each transaction: two clients that write little, and never wait for
    /// each other.
    pub fn start_logged_bench(&self) -> RunningBench {
        let options = ["-c", "2", "-b", "simple-update", "-l", "--log-prefix", BENCH_LOG];
        self.start_bench_with(&options)
    }

    fn start_bench_with(&self, options: &[&str]) -> RunningBench {
        let mut command = self.client("pgbench");
        command.args(["-n", "-T", LONG]).args(options).arg("postgres").stdout(Stdio::piped());
        let before = self.transactions();
        let bench = RunningBench(command.spawn().expect("pgbench starts"));
        wait_until("pgbench writes", || self.transactions() > before);
        bench
    }

    /// Returns the pids of all its processes.
    fn pids(&self) -> Vec<u32> {
        let pid = self.child.id();
        let children = read(&format!("/proc/{pid}/task/{pid}/children"));
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        [pid].into_iter().chain(children).collect()
    }

    /// Sets the affinity of all its processes, and of those that it will start. Workers of
    /// autovacuum come and go.
    pub fn set_affinity(&self, cpus: &[usize]) {
        self.pids().into_iter().for_each(|pid| guest::set_affinity_while_it_lives(pid, cpus));
    }

    /// Returns the backend that touched most of the segment, with the pages that it touched.
    pub fn widest_backend(&self) -> (u32, PagesByNode) {
        let segment = self.segment();
        let touched = self.pids().into_iter().map(|pid| (pid, pages_within(pid, &segment)));
        touched.max_by_key(|(_, pages)| pages.values().sum::<u64>()).expect("it has processes")
    }

    /// Returns the addresses of its segment: the same ones in all its processes, as it forks them.
    pub fn segment(&self) -> Range<u64> {
        let maps = read(&format!("/proc/{}/maps", self.child.id()));
        let segment = maps.lines().find_map(|line| {
            let (addresses, _) = line.split_once(' ').filter(|_| line.contains("/dev/zero"))?;
            let (start, end) = addresses.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?)
        });
        segment.unwrap_or_else(|| panic!("no segment in {maps}"))
    }

    /// Returns the pages of the segment that these processes touched, once for each of them.
    pub fn segment_pages(&self, pids: &[u32]) -> PagesByNode {
        let (segment, mut all) = (self.segment(), PagesByNode::new());
        for (node, pages) in pids.iter().flat_map(|&pid| pages_within(pid, &segment)) {
            *all.entry(node).or_default() += pages;
        }
        all
    }

    /// Ends it in its own time.
    pub fn stop(mut self) {
        signal(&self.child, Signal::INT);
        let status = self.child.wait().expect("our child can be waited for");
        assert!(status.success(), "{status}: {}", read(LOG));
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RunningBench {
    /// Ends it, as [`RunningBench::finish`], and returns its log, too.
    pub fn finish_logged(self) -> (BenchReport, Vec<LoggedTransaction>) {
        let log = format!("{BENCH_LOG}.{}", self.0.id());
        let report = self.finish();
        let writing = |line: &str| LoggedTransaction::parse(line);
        (report, read(&log).lines().filter_map(writing).collect())
    }

    /// Ends it, as its own timer would. Every transaction must have succeeded.
    pub fn finish(mut self) -> BenchReport {
        signal(&self.0, Signal::ALARM);
        let mut told = String::new();
        let output = self.0.stdout.as_mut().expect("a pipe");
        output.read_to_string(&mut told).expect("its output can be read");
        let status = self.0.wait().expect("our child can be waited for");
        assert!(status.success(), "{status}: {told} {}", read(LOG));
        assert_eq!(number(&told, "number of failed transactions: "), "0", "{told}");
        let value = |words| number(&told, words).to_owned();
        BenchReport {
            tps: value("tps = ").parse().expect("a number"),
            // The first script is the one that writes. Of a single one nothing is told by itself.
            written: match told.contains("SQL script 2") {
                true => value(" - ").parse().expect("a number"),
                false => {
                    value("number of transactions actually processed: ").parse().expect("a number")
                }
            },
        }
    }
}

impl LoggedTransaction {
    /// Reads a line: client, number, how long it took in us, script, and when it ended in s and us.
    /// `None` for one that only read.
    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [_, _, took_us, 0, s, us] = numbers[..] else { return None };
        let ended = Duration::from_secs(s) + Duration::from_micros(us);
        Some(Self { ended, took: Duration::from_micros(took_us) })
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("our child can be signalled");
}

/// Returns the word after the first line's beginning that has a number behind it.
fn number<'a>(told: &'a str, words: &str) -> &'a str {
    let values = told.lines().filter_map(|line| line.strip_prefix(words)?.split(' ').next());
    let mut numbers = values.filter(|value| value.starts_with(|c: char| c.is_ascii_digit()));
    numbers.next().unwrap_or_else(|| panic!("no '{words}' in {told}"))
}
