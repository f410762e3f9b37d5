//! `nodeward pcp` on real kernels: each test is one guest that runs a group of cases of
//! `nodeward-cases`, which state their goals.

use nodeward_lab::{GuestKernel, is_every_kernel_wanted, scenario};

use guests::CaseGuest;

mod guests;
mod programs;

/// Cases about any kernel, and about those that tune their lists themselves.
const ANY: [&str; 3] = ["page_lists_shown", "page_lists_left_alone", "page_lists_advice"];

fn run(kernel: &GuestKernel, names: &[&str]) {
    if is_every_kernel_wanted() {
        CaseGuest { parallel: true, ..CaseGuest::new(kernel, scenario("two-nodes")) }.run(names);
    }
}

/// The kernel has no setting for all lists, and lists of single pages only.
#[test]
fn on_5_10() {
    run(&GuestKernel::V5_10, &["page_lists_shown"]);
}

/// The kernel does not tune its lists. `bench/run pcp.` reads what this prints.
#[test]
fn tuned_on_6_1() {
    run(&GuestKernel::V6_1, &["page_lists_tuned"]);
}

/// The same kernel.
#[test]
fn on_6_1() {
    run(
        &GuestKernel::V6_1,
        &[
            "page_lists_shown",
            "page_lists_short_memory",
            "page_lists_killed",
            "page_lists_changed",
            "page_lists_of_two",
            "page_lists_tuned_by_balance",
            "page_lists_advice",
        ],
    );
}

#[test]
fn on_6_12() {
    run(&GuestKernel::V6_12, &ANY);
}

#[test]
fn on_the_newest_kernel() {
    run(&GuestKernel::Newest, &ANY);
}
