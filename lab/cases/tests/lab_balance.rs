//! `nodeward balance` on real kernels: each test is one guest that runs a group of cases of
//! `nodeward-cases`, which state their goals.

use std::time::Duration;

use nodeward_lab::{GuestKernel, is_every_case_wanted, is_every_kernel_wanted, scenario};
use nodeward_model::units::parse_duration_ns;

use guests::CaseGuest;

mod guests;
mod programs;

/// Cases wait for a number of rounds, which are 3 s apart when the balancer is idle.
const TIMEOUT: Duration = Duration::from_secs(600);

fn on_two_nodes(kernel: &GuestKernel, names: &[&str]) {
    let mut guest = CaseGuest::new(kernel, scenario("two-nodes"));
    guest.timeout = TIMEOUT;
    guest.run(names);
}

/// Cases that the newest kernel runs in any case.
fn on_6_12_too(names: &[&str]) {
    if is_every_kernel_wanted() {
        on_two_nodes(&GuestKernel::V6_12, names);
    }
}

/// Returns the first of cases that are alike, or all of them where every kernel runs everything.
fn one_or_all<'a>(names: &'a [&'a str]) -> &'a [&'a str] {
    if is_every_kernel_wanted() { names } else { &names[..1] }
}

/// Placement, and the parts of it that kernels report differently.
const HOMES: [&str; 3] = ["balance_brings_threads_home", "balance_once", "balance_lets_stand"];

#[test]
fn homes_on_6_12() {
    on_6_12_too(&HOMES);
}

/// Samples come from a program, not from the kernel.
#[test]
fn pages_by_samples() {
    on_6_12_too(&["balance_by_samples"]);
}

/// What the clock interrupts is read by perf, which each kernel has in its own way.
const REGISTERS: [&str; 2] = ["balance_parts", "balance_parts_read"];

#[test]
fn parts_by_registers_on_6_12() {
    on_6_12_too(&REGISTERS);
}

#[test]
fn parts_by_registers_on_the_newest_kernel() {
    on_two_nodes(&GuestKernel::Newest, one_or_all(&REGISTERS));
}

#[test]
fn homes_on_the_newest_kernel() {
    on_two_nodes(&GuestKernel::Newest, &HOMES);
}

/// Cases with low-priority work beside programs that use all CPUs of a guest.
const BUSY: [&str; 3] =
    ["balance_brings_memory_home", "balance_after_a_kill", "balance_targets_end"];

#[test]
fn memory_beside_busy_programs_on_6_12() {
    on_6_12_too(&BUSY);
}

#[test]
fn memory_beside_busy_programs_on_the_newest_kernel() {
    on_two_nodes(&GuestKernel::Newest, one_or_all(&BUSY));
}

/// The effects of affinity, parentage and pid are decided by the balancer; kernels do not differ in
/// these.
#[test]
fn changes_of_targets() {
    let targets =
        ["balance_targets_fork", "balance_targets_go_elsewhere", "balance_pid_comes_back"];
    on_two_nodes(&GuestKernel::V6_12, &targets);
}

/// What belongs to a group is decided by the balancer; kernels do not differ in it.
#[test]
fn groups() {
    on_two_nodes(
        &GuestKernel::V6_12,
        &["groups_by_calls", "groups_by_rules", "groups_of_a_region", "groups_without_an_agent"],
    );
}

/// Who asks, and in which pid namespace, each kernel says in its own way.
const AGENT: [&str; 2] = ["agent_moves_for_a_container", "agent_interrupted"];

#[test]
fn moves_by_the_agent_on_6_12() {
    on_6_12_too(&AGENT);
}

#[test]
fn moves_by_the_agent_on_the_newest_kernel() {
    on_two_nodes(&GuestKernel::Newest, &AGENT);
}

#[test]
fn surroundings() {
    on_two_nodes(
        &GuestKernel::V6_12,
        &[
            "balance_without_privilege",
            "balance_beside_the_kernel",
            "balance_full_disk",
            "balance_clock_jumps",
            "balance_node_without_cpus",
            "balance_memory_offline",
        ],
    );
}

/// The sysctl, and what a kernel tells of its balancing.
const RIVALS: [&str; 5] = [
    "balance_take_over",
    "balance_take_over_killed",
    "balance_take_over_changed",
    "balance_cooperates",
    "balance_run_unscanned",
];

#[test]
fn rivals_on_6_12() {
    on_6_12_too(&RIVALS);
}

#[test]
fn rivals_on_the_newest_kernel() {
    on_two_nodes(&GuestKernel::Newest, &RIVALS);
}

#[test]
fn as_a_service() {
    on_two_nodes(
        &GuestKernel::V6_12,
        &["balance_of_two", "balance_tells_systemd", "balance_run_at_home"],
    );
}

/// Processes come and go. SOAK_TIME sets the duration; `make soak` uses an hour. Other cases have
/// targets that end.
#[test]
fn churn() {
    let set = std::env::var("SOAK_TIME").ok();
    if set.is_none() && !is_every_case_wanted() {
        println!("skipped: SOAK_TIME is not set; `make test-long` runs it");
        return;
    }
    let text = set.unwrap_or_else(|| "5s".to_owned());
    let time = Duration::from_nanos(parse_duration_ns(&text).expect("SOAK_TIME is a time"));
    let mut guest = CaseGuest::new(&GuestKernel::V6_12, scenario("two-nodes"));
    guest.timeout += time * 2;
    guest.env = vec![("SOAK_TIME".to_owned(), text)];
    guest.run(&["balance_churn"]);
}
