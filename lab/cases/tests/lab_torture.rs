//! Memory of a pager, used by every means that programs have, while it moves: on each kernel for a
//! third of `TORTURE_TIME`, as `cargo xtask lab torture` and `make soak` set it, or for moments.
//! Each method has its kernel; 6.12 has that of the newest, and is tried where all are wanted.

use std::time::Duration;

use nodeward_lab::{GuestKernel, is_every_kernel_wanted, scenario};
use nodeward_model::units::{format_ns, parse_duration_ns};

use guests::CaseGuest;

mod guests;
mod programs;

/// For each kernel a few seconds, and until every thread has made a step.
const MOMENTS: &str = "3s";

/// Maximum time that a thread may stall, in time in which others made progress, unless
/// `TORTURE_PATIENCE` is set: 4 s were seen on a host with five times as much to do as it has
/// processors. `make soak` allows 10 s.
const HANG_TIMEOUT: &str = "60s";

/// A guest ends after that and twice the time. (A clean run of 6 s took 30 s beside other load.)
const SLOWEST: Duration = Duration::from_secs(600);

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A third of `TORTURE_TIME` on each kernel.
fn torture(kernel: &GuestKernel) {
    let or = |name, default: &str| set(name).unwrap_or_else(|| default.to_owned());
    let time = or("TORTURE_TIME", MOMENTS);
    let time = parse_duration_ns(&time).expect("TORTURE_TIME is a time") / 3;
    let mut guest = CaseGuest::new(kernel, scenario("two-nodes"));
    guest.parallel = true;
    guest.timeout = SLOWEST + Duration::from_nanos(time) * 2;
    let all = [
        ("TORTURE_TIME", Some(format!("{}ms", time / 1_000_000))),
        ("TORTURE_PATIENCE", Some(or("TORTURE_PATIENCE", HANG_TIMEOUT))),
        ("TORTURE_SEED", set("TORTURE_SEED")),
    ];
    let given = all.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?)));
    guest.env = given.collect();
    println!("{} on {kernel}", format_ns(time));
    guest.run(&["torture"]);
}

/// Goal: the method of kernels before 6.8, by mremap.
#[test]
fn on_6_1() {
    torture(&GuestKernel::V6_1);
}

/// Goal: the fastest method, on an older kernel. A time that was given is for all kernels.
#[test]
fn on_6_12() {
    if set("TORTURE_TIME").is_some() || is_every_kernel_wanted() {
        torture(&GuestKernel::V6_12);
    }
}

/// Goal: the fastest method on the newest kernel.
#[test]
fn on_the_newest_kernel() {
    torture(&GuestKernel::Newest);
}
