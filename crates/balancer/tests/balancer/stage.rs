//! A machine of two nodes with four CPUs each, and processes on it.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, ProcessRow, RoundReport};
use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{CpuId, Cpumask, NodeId, Page, Pid, ProcessFilter};
use nodeward_mover::MoveControl;

pub const S: u64 = 1_000_000_000;
/// Pages of a process: 16 MiB, for which a move always pays within a horizon of 10 s.
pub const PAGES: u64 = 4096;

pub fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

pub fn cpus(list: &str) -> Cpumask {
    list.parse().unwrap()
}

/// Returns pages on node 0 and then on node 1.
pub fn pages(on: [u64; 2]) -> Vec<Page> {
    let of = |node: u32| vec![Page::on(NodeId(node)); on[node as usize] as usize];
    [of(0), of(1)].concat()
}

/// Creates a process that ran for long, with a busy thread on a CPU, an affinity, and pages on both
/// nodes.
pub fn fake_process(on: [u64; 2], cpu: u32, may: &str) -> FakeProcess {
    let thread = FakeThread::new(CpuId(cpu), cpus(may), 1000);
    let thread = FakeThread { cpu_time_ns: 60 * S, ..thread };
    FakeProcess { threads: [(1, thread)].into(), ..FakeProcess::with_pages(&pages(on)) }
}

pub fn fake() -> Arc<FakeMachine> {
    Arc::new(FakeMachine::with_topology(true, "2n 4c 1t 4GiB"))
}

/// A machine with one process, pid 7.
pub fn with(fake_process: FakeProcess) -> Arc<FakeMachine> {
    let fake = fake();
    fake.spawn(pid(7), fake_process);
    fake
}

pub fn balancer(fake: &Arc<FakeMachine>, settings: BalanceSettings) -> Balancer {
    Balancer::new(machine(fake), &ProcessFilter::default(), settings, None).unwrap()
}

pub fn machine(fake: &Arc<FakeMachine>) -> Arc<dyn Machine> {
    let fake: Arc<FakeMachine> = Arc::clone(fake);
    fake
}

/// Makes a round, and waits until the next one.
pub fn round(fake: &FakeMachine, balancer: &mut Balancer) -> RoundReport {
    let report = balancer.round(&MoveControl::default()).unwrap();
    fake.sleep_ns(report.interval_ns);
    report
}

pub fn rounds(fake: &FakeMachine, balancer: &mut Balancer, count: usize) -> Vec<RoundReport> {
    (0..count).map(|_| round(fake, balancer)).collect()
}

/// Returns the pages of process 7 on both nodes.
pub fn residency(fake: &FakeMachine) -> [u64; 2] {
    let on = fake.process(pid(7)).unwrap().residency();
    [0, 1].map(|node| on.get(&NodeId(node)).copied().unwrap_or(0))
}

/// Returns the node of the thread of process 7.
pub fn runs_on(fake: &FakeMachine) -> u32 {
    fake.process(pid(7)).unwrap().threads[&1].cpu.0 / 4
}

/// Returns the row of a process.
pub fn row(report: &RoundReport, number: u32) -> &ProcessRow {
    report.processes.iter().find(|row| row.pid == pid(number)).unwrap()
}

pub fn moved(reports: &[RoundReport]) -> u64 {
    reports.iter().map(|report| report.moved_pages).sum()
}
