//! `nodeward balance --scheduler bpf` on real kernels: each test is one guest that runs a group of
//! cases of `nodeward-cases`, which state their goals.

use nodeward_lab::{GuestKernel, LabMachine, is_every_kernel_wanted, scenario};

use guests::CaseGuest;

mod guests;
mod programs;

/// Two nodes with two CPUs each.
const FOUR_CPUS: &str = "distances = [[10, 21], [21, 10]]\n\
                         [[node]]\nid = 0\ncpus = 2\nmemory = \"1GiB\"\n\
                         [[node]]\nid = 1\ncpus = 2\nmemory = \"1GiB\"\n";

/// The kernel has no sched_ext.
#[test]
fn on_6_1() {
    if is_every_kernel_wanted() {
        CaseGuest::new(&GuestKernel::V6_1, scenario("two-nodes")).run(&["scheduler_is_absent"]);
    }
}

#[test]
fn on_the_newest_kernel() {
    if is_every_kernel_wanted() {
        let names = ["scheduler_runs_threads_at_home", "scheduler_is_ejected", "scheduler_of_two"];
        CaseGuest::new(&GuestKernel::Newest, scenario("two-nodes")).run(&names);
    }
}

/// `bench/run scheduler.` reads what this prints.
#[test]
fn beside_nudges_on_the_newest_kernel() {
    if is_every_kernel_wanted() {
        CaseGuest::new(&GuestKernel::Newest, scenario("two-nodes"))
            .run(&["scheduler_beside_nudges"]);
    }
}

#[test]
fn with_four_cpus_on_the_newest_kernel() {
    if is_every_kernel_wanted() {
        let machine = LabMachine::parse("four-cpus", FOUR_CPUS).expect("a machine");
        CaseGuest::new(&GuestKernel::Newest, machine).run(&["scheduler_uses_idle_cpus"]);
    }
}
